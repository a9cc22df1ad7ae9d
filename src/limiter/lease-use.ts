// Lets a request use the leases of this isolate, and maintains them after responses. It asks for the next lease before
// the current one runs dry, so that no request waits, and gives unused units back.

import type { TakeCheck } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { PlacedCheck } from '../core/regions/placement.ts';
import type { Lease } from './lease-counter.ts';
import type { LeaseBook } from './leases.ts';
import type { DecisionRequest } from './limiter.ts';
import { askRegion, type Regions } from './region.ts';
import { nameOf, type Transfers } from './transfers.ts';
import { NO_VERDICTS, wholeOutcome } from './verdicts.ts';

export interface LeaseUseOptions {
  readonly now: () => number;
  readonly book: LeaseBook;
  readonly transfers: Pick<Transfers, 'checkAt' | 'follow'>;
  /** See memory.ts. */
  readonly announcement: () => string;
}

export type LeaseUse = ReturnType<typeof createLeaseUse>;

/** One list for all requests without a lease, so that V8 always sees the same kind of array: see `mapStable`. */
const NONE: readonly PlacedCheck[] = [];

/** No request waits for this call, but a late lease is of no use. */
const REFILL_MS = 1_000;
const GIVE_BACK_MS = 5_000;

interface Refill {
  readonly placed: PlacedCheck;
  /** The check as the region counts it, with the units to lease. */
  readonly check: RuleCheck;
  readonly leasing: RuleCheck & TakeCheck;
}

export function createLeaseUse({ now, book, transfers, announcement }: LeaseUseOptions) {
  const refillOf = (placed: PlacedCheck, regions: Regions): Refill[] => {
    const check = book.isLow(placed.check) ? transfers.checkAt(placed, regions[0].name) : undefined;
    const units = check ? book.claim(regions, placed, check) : 0;
    return check && units > 0
      ? [{ placed, check, leasing: { ...check, leaseUnits: units - check.cost } }]
      : [];
  };

  const refill = async (refills: readonly Refill[], { regions, afterResponse }: DecisionRequest) => {
    const [region] = regions;
    const sentAtMs = now();
    const sentUnder = book.announcement();
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
      const whole = wholeOutcome(placed, NO_VERDICTS, check, outcome);
      book.note({
        region,
        check,
        outcome,
        whole,
        sentAtMs,
        chargedAtMs,
        usedNow: 0,
        announcement: sentUnder,
      });
      // Asks for parts as after a request, because a counter used from memory needs the parts of other regions, too.
      transfers.follow([{ placed, region, counted: check, outcome: told }], regions, afterResponse);
    }
  };

  const follow = (leased: readonly PlacedCheck[], request: DecisionRequest) => {
    const { regions, afterResponse } = request;
    const refills = leased.flatMap((one) => refillOf(one, regions));
    if (refills.length > 0) afterResponse(refill(refills, request));
    for (const some of callsFor(book.takeIdle())) afterResponse(giveBack(some));
  };

  const isLeased = (one: PlacedCheck) => one.check.rule.lease && book.has(one);

  return {
    /** The checks that this isolate has leased units for. */
    find(placed: readonly PlacedCheck[], { operation }: DecisionRequest): readonly PlacedCheck[] {
      book.enter(announcement());
      return operation === 'take' && placed.some(isLeased) ? placed.filter(isLeased) : NONE;
    },

    /** Uses units for all of them; undefined if a lease has ended meanwhile. */
    use(
      leased: readonly PlacedCheck[],
      request: DecisionRequest,
    ): readonly CheckResult<RuleCheck>[] | undefined {
      book.enter(announcement());
      const used = book.use(leased, request.ledger);
      follow(leased, request);
      return used;
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
