// Maintains leases after responses. It asks for the next lease before the current one runs dry, so that no request
// waits, and gives unused units back.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { windowAt } from '../core/counting/calendar.ts';
import type { TakeCheck } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { asWhole, pendingOf } from './count.ts';
import type { Lease } from './lease-counter.ts';
import type { LeaseBook } from './leases.ts';
import type { PlacedCheck } from './next-region.ts';
import { askRegion, type Regions } from './region-calls.ts';
import { nameOf, type Transfers } from './transfers.ts';

export interface LeaseUpkeep {
  /** Called after a request that used leases of these checks. */
  follow(placed: readonly PlacedCheck[], request: Following): void;
}

export interface Following {
  readonly regions: Regions;
  readonly afterResponse: AfterResponse;
}

export interface LeaseUpkeepOptions {
  readonly now: () => number;
  readonly book: LeaseBook;
  readonly transfers: Pick<Transfers, 'checkAt' | 'follow'>;
}

/** No request waits for this call, but a late lease is of no use. */
const REFILL_MS = 1_000;
const GIVE_BACK_MS = 5_000;

interface Refill {
  readonly placed: PlacedCheck;
  /** The check as the region counts it, with the units to lease. */
  readonly check: RuleCheck;
  readonly leasing: RuleCheck & TakeCheck;
}

export function createLeaseUpkeep({ now, book, transfers }: LeaseUpkeepOptions): LeaseUpkeep {
  const refillOf = (placed: PlacedCheck, regions: Regions): Refill[] => {
    const check = book.isLow(placed.check) ? transfers.checkAt(placed, regions[0].name) : undefined;
    const units = check ? book.claim(regions, placed, check) : 0;
    return check && units > 0
      ? [{ placed, check, leasing: { ...check, leaseUnits: units - check.cost } }]
      : [];
  };

  const refill = async (refills: readonly Refill[], { regions, afterResponse }: Following) => {
    const [region] = regions;
    const sentAtMs = now();
    const announcement = book.announcement();
    const signal = AbortSignal.timeout(REFILL_MS);
    const checks = refills.map(({ leasing }) => leasing);
    const ask = () => region.store.take({ checks }, signal);
    const asked = await askRegion({ region, isFair: false, now, ask });
    if (asked.kind === 'unanswered') return;
    const { nowMs, outcomes } = asked.answer;
    for (const { check } of refills) book.answered(check);
    const isCharged = refills.every((_, i) => outcomes[i]?.allowed);
    for (const [i, { placed, check }] of refills.entries()) {
      const told = outcomes[i];
      if (!told) continue;
      const chargedAtMs = told.nowMs ?? nowMs;
      if (!told.allowed) book.denied(check, told, chargedAtMs);
      if (!isCharged) continue;
      const outcome = { ...told, granted: told.granted + check.cost };
      const whole = asWhole(pendingOf(placed), check, outcome);
      book.note({ region, check, outcome, whole, sentAtMs, chargedAtMs, usedNow: 0, announcement });
      // Asks for parts as after a request, because a counter used from memory needs the parts of other regions, too.
      transfers.follow([{ placed, region, counted: check, outcome: told }], regions, afterResponse);
    }
  };

  return {
    follow(placed, request) {
      const { regions, afterResponse } = request;
      const refills = placed.flatMap((one) => refillOf(one, regions));
      if (refills.length > 0) afterResponse(refill(refills, request));
      const idle = book.takeIdle();
      for (const some of callsFor(idle)) afterResponse(giveBack(some));
    },
  };
}

type Leases = readonly [Lease, ...Lease[]];

/** Groups leases by region, so that no call names a counter twice. */
function callsFor(idle: readonly Lease[]): Leases[] {
  const calls: [Lease, ...Lease[]][] = [];
  for (const lease of idle) {
    const isApart = (other: Lease) =>
      other.region === lease.region && nameOf(other.check) !== nameOf(lease.check);
    const call = calls.find((some) => some.every(isApart));
    if (call) call.push(lease);
    else calls.push([lease]);
  }
  return calls;
}

/** Tries once. A second refund could give back units of another request. */
async function giveBack(leases: Leases): Promise<void> {
  const [{ region }] = leases;
  const checks = leases.map(({ check, units, chargedAtMs }) => ({ ...check, cost: units, chargedAtMs }));
  await region.store.refund({ checks }, AbortSignal.timeout(GIVE_BACK_MS)).catch(region.watch.note);
}

// Which limits may be leased, how many units, and for how long. docs/leases.md explains why that is exact.

/** Upstash bills a call as four commands. Shared by 100 requests, it costs each of them 0.04 of a command. */
const WORTH_REQUESTS = 100;
/** A fast isolate leases for this long instead, so that it makes two calls a second at any pace. */
const SHORTEST_MS = 500;
/**
 * A slow isolate leases for at most this long, so for fewer requests. Meanwhile, other isolates cannot use its units
 * and do not see how many it has used.
 */
const LONGEST_MS = 5_000;
/** Requests a second. At a slower pace, a lease saves too little for the units it keeps from others. */
const LEAST_PACE = 5;
/** Requests. A smaller limit costs few calls, and a caller that moves to another isolate could not use what is left. */
const LEAST_LIMIT = 100;
/** A lease is at most this part of the limit, because it is lost if the isolate ends. */
const PART_OF_LIMIT = 1 / 8;
/** A lease must be used in this part of the time until the window ends, so that a slower pace leaves little unused. */
const PART_OF_WINDOW = 0.5;
/** A smaller lease saves nothing. Near the limit, requests are counted one by one. */
const LEAST_REQUESTS = 2;
/** The clock of an isolate stands still while the isolate computes, and it shows whole milliseconds. */
const CLOCK_MARGIN_MS = 10;

/** Weir leases only rules whose charges never change later, and whose denials change nothing. */
export function isLeasable({ algorithm, rule, countDenied, blockMs, isShadow }: RuleCheck): boolean {
  const isPlain = rule.action === 'reject' && !isShadow && !rule.refundOnError && !rule.costFromOrigin;
  const mayLease = rule.lease && isPlain && !countDenied && !blockMs;
  return mayLease && traitsOf(algorithm).leaseCellMs !== undefined;
}

/** What the isolate knows of a counter. */
export interface LeasePace {
  /** The pace of this isolate in the last measurement, and in the one before. */
  readonly unitsPerMs: number;
  readonly unitsPerMsBefore: number;
  /** What is left in the region, as far as this isolate knows. */
  readonly remaining: number;
  /** How many isolates use the counter, if all do so at the pace of this one. */
  readonly isolates: number;
  /** The time by the clock of the region, roughly. */
  readonly nowMs: number;
  /** How long a call to the region takes. */
  readonly callMs: number;
}

/** Units to ask for beyond the cost; 0 for none. */
export function wantOf(check: RuleCheck, pace: LeasePace): number {
  const { remaining, isolates, nowMs, callMs } = pace;
  // A burst must not count as pace, so both measurements must be fast. Their mean is nearer to the truth than either.
  const isBusy = Math.min(pace.unitsPerMs, pace.unitsPerMsBefore) * 1_000 >= LEAST_PACE * check.cost;
  const unitsPerMs = (pace.unitsPerMs + pace.unitsPerMsBefore) / 2;
  if (!isBusy || !isLeasable(check) || check.full.limit < LEAST_LIMIT * check.cost) return 0;
  // Requests that arrive while the lease call is in flight must still find units, or the lease would deny them.
  const spare = remaining - unitsPerMs * isolates * callMs;
  const usedMs = Math.min(worthMs(check, unitsPerMs), lastsMs(check, nowMs) * PART_OF_WINDOW);
  const most = Math.min(check.full.limit * PART_OF_LIMIT, remaining / isolates, spare);
  const wanted = Math.floor(Math.min(unitsPerMs * usedMs, most));
  const units = wanted - (wanted % check.cost);
  return units >= LEAST_REQUESTS * check.cost ? units : 0;
}

const worthMs = ({ cost }: RuleCheck, unitsPerMs: number): number =>
  Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (WORTH_REQUESTS * cost) / unitsPerMs));

/** How long units charged at that moment may be used: until their cell ends, by the clock of the region. */
export function lastsMs(check: RuleCheck, atMs: number): number {
  if (check.borders) return windowAt(atMs, check).endMs - atMs - CLOCK_MARGIN_MS;
  const { limit, windowMs, borders, extra } = check;
  const cellMs = traitsOf(check.algorithm).leaseCellMs?.({ limit, windowMs, borders, extra }) ?? 0;
  return cellMs > 0 ? cellMs - (atMs % cellMs) - CLOCK_MARGIN_MS : 0;
}
