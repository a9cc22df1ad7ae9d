// Maintains leases after responses. It asks for the next lease before the current one runs dry, so that no request
// waits, and gives unused units back.

import type { RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import type { Cessions } from './cessions.ts';
import { nameOf } from './known-cessions.ts';
import type { LeaseBook } from './lease-book.ts';
import type { Lease } from './lease-counter.ts';
import { asWhole, pendingOf } from './pending-check.ts';
import type { PlacedCheck } from './placed-checks.ts';
import { askRegion, type Regions } from './region.ts';

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
  readonly cessions: Pick<Cessions, 'checkAt' | 'follow'>;
}

/** No request waits for this call, but a late lease is of no use. */
const REFILL_MS = 1_000;
const GIVE_BACK_MS = 5_000;

interface Refill {
  readonly placed: PlacedCheck;
  /** The check as the region counts it, with the units to lease. */
  readonly check: RuleCheck;
  readonly wanting: RuleCheck;
}

export function createLeaseUpkeep({ now, book, cessions }: LeaseUpkeepOptions): LeaseUpkeep {
  const refillOf = (placed: PlacedCheck, regions: Regions): Refill[] => {
    const check = book.isLow(placed.check) ? cessions.checkAt(placed, regions[0].name) : undefined;
    const units = check ? book.claim(regions, placed, check) : 0;
    return check && units > 0 ? [{ placed, check, wanting: { ...check, want: units - check.cost } }] : [];
  };

  const refill = async (refills: readonly Refill[], { regions, afterResponse }: Following) => {
    const [region] = regions;
    const sentAtMs = now();
    const announcement = book.announcement();
    const signal = AbortSignal.timeout(REFILL_MS);
    const checks = refills.map(({ wanting }) => wanting);
    const ask = () => region.store.run({ operation: 'take', checks }, signal);
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
      cessions.follow([{ placed, region, counted: check, outcome: told }], regions, afterResponse);
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
  const call = { operation: 'refund', checks } as const;
  await region.store.run(call, AbortSignal.timeout(GIVE_BACK_MS)).catch(region.watch.note);
}
