// Plays a history of takes, refunds and transfers, and holds every admission against the whole limit.
import type { Relief } from '../../src/core/algorithms/algorithm.ts';
import type { Check } from '../../src/core/check.ts';
import { createRegions, type SplitRule, type Step } from './transfers.ts';
import { createExpiringCounters, DEFINITIONS, isBucket, START_MS, waitMs } from './whole-limit.ts';

export interface Admitted {
  readonly atMs: number;
  readonly units: number;
  readonly region: number;
  /** What can still be given back. */
  readonly kept: number;
}

interface Transfer {
  readonly borrower: number;
  readonly cost: number;
  /** By the clock of the borrower: when it was denied. */
  readonly sinceMs: number;
  readonly relief?: Relief;
}

export interface Played {
  /** Whether each admission kept to the whole limit. */
  readonly isWithin: boolean;
  readonly admitted: readonly Admitted[];
  /** How often what did not fit passed by a relief. */
  readonly helped: number;
}

export interface PlayOptions {
  /** A bucket is given back what has drained already: not asked for unless told so. */
  readonly lateRefunds?: boolean;
}

const nthLast = <T>(list: readonly T[], which: number) => list.at(-1 - (which % Math.max(1, list.length)));

export function play(split: SplitRule, history: readonly Step[], options: PlayOptions = {}): Played {
  const { rule } = split;
  let atMs = START_MS;
  const regions = createRegions(
    split,
    createExpiringCounters(() => atMs),
  );
  let admitted: Admitted[] = [];
  let transfers: Transfer[] = [];
  let isWithin = true;
  let helped = 0;
  let lateUnits = 0;

  const at = (place: number) => {
    const region = place % regions.length;
    const found = regions[region];
    if (!found) throw new Error('no regions');
    return { region, ...found };
  };

  const take = (place: number, asked: Partial<Check> & { readonly cost: number }) => {
    const { region, run } = at(place);
    const { allowed, granted } = run('take', asked, atMs);
    if (!allowed) transfers.push({ borrower: region, cost: asked.cost, sinceMs: atMs });
    if (!allowed) return false;
    const units = asked.cost + granted;
    admitted.push({ atMs, units, region, kept: units });
    const burst = isBucket(rule.algorithm) ? (rule.extra ?? rule.limit) + lateUnits : rule.extra;
    isWithin &&= DEFINITIONS[rule.algorithm](admitted, atMs, { ...rule, extra: burst });
    return true;
  };

  /** A window forgets the charge; a bucket is given something now, unless its window is over. */
  const forget = (charge: Admitted, units: number) => {
    const kept = charge.kept - units;
    const isGiven = isBucket(rule.algorithm);
    const after = { ...charge, kept, units: isGiven ? charge.units : kept };
    admitted = admitted.map((one) => (one === charge ? after : one));
    if (!isGiven || atMs - charge.atMs >= rule.windowMs) return;
    admitted.push({ ...charge, atMs, units: -units, kept: 0 });
    if (atMs > charge.atMs) lateUnits += units;
  };

  const steps: Record<Step['kind'], (step: Step) => void> = {
    take({ region, cost, want }) {
      take(region, { cost: cost === 'all' ? Math.max(1, at(region).room(atMs)) : cost, want });
    },

    refund({ which, cost }) {
      const canWait = options.lateRefunds || !isBucket(rule.algorithm);
      const charge = nthLast(
        admitted.filter((one) => one.kept > 0 && (canWait || one.atMs === atMs)),
        which,
      );
      if (!charge) return;
      const units = cost === 'all' ? charge.kept : Math.min(cost, charge.kept);
      at(charge.region).run('refund', { cost: units, chargedAtMs: charge.atMs }, atMs);
      forget(charge, units);
    },

    lend({ which, region, cost: asked, want }) {
      const waiting = transfers.filter(({ relief }) => !relief);
      const transfer = nthLast(waiting, which);
      const lender = at(region);
      if (!transfer || lender.region === transfer.borrower) return;
      const cost = asked === 'all' ? Math.max(1, lender.room(atMs)) : asked;
      const { allowed, granted } = lender.run('take', { cost, want }, atMs);
      // Not the lender's own limit: what it was charged may be taken over by another that drains faster.
      const relief = { units: cost + granted, sinceMs: transfer.sinceMs, fullLimit: rule.limit };
      if (allowed) transfers = transfers.map((one) => (one === transfer ? { ...one, relief } : one));
    },

    arrive({ which, want }) {
      const lent = transfers.filter(({ relief }) => relief);
      const transfer = nthLast(lent, which);
      if (!transfer) return;
      const { borrower, cost, relief } = transfer;
      transfers = transfers.filter((one) => one !== transfer);
      const didFit = at(borrower).room(atMs) >= cost;
      if (take(borrower, { cost, want, relief }) && !didFit) helped += 1;
    },
  };

  for (const step of history) {
    atMs += waitMs(step.wait, rule.windowMs, atMs);
    steps[step.kind](step);
  }
  return { isWithin, admitted, helped };
}
