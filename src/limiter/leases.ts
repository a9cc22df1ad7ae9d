// The leases of this isolate: units that it has charged in advance and uses from memory (docs/leases.md). Everything
// here is synchronous; lease-use.ts makes the calls.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { type Outcome, outcomeWith } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import { mapStable } from '../core/map-stable.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { isBeingMoved, type PlacedCheck } from '../core/regions/placement.ts';
import {
  ask,
  isAsking,
  isLow,
  type Lease,
  LeaseCounter,
  type LeaseGrant,
  leaseFor,
  noteLeft,
  noteRemaining,
  paceOf,
  putBackUnits,
  sumOf,
  updatePace,
  useUnits,
} from './lease-counter.ts';
import { isLeasable, lastsMs, wantOf } from './lease-terms.ts';
import type { Ledger } from './ledger.ts';
import type { Regions } from './region.ts';
import { nameOf } from './transfers.ts';

export type LeaseBook = ReturnType<typeof createLeaseBook>;

const MAX_COUNTERS = 10_000;
/**
 * The isolate gives back units that are unused this long after the lease call. It is twice as long as the longest lease
 * should last.
 */
const IDLE_MS = 10_000;
/** The most leases that one request gives back. */
const MAX_GIVEN_BACK = 50;

export function createLeaseBook(now: () => number) {
  let counters = createBoundedCache<LeaseCounter>(MAX_COUNTERS);
  /** All leases with units, oldest first, also those whose counters the cache has dropped. */
  let open = new Set<Lease>();
  let givenUp: Lease[] = [];
  let current = '';
  let latestMs = Number.NEGATIVE_INFINITY;

  const forget = () => {
    counters = createBoundedCache<LeaseCounter>(MAX_COUNTERS);
    open = new Set();
    givenUp = [];
  };

  /** If the clock was put back, drops all leases: they would last too long. */
  const nowMs = () => {
    const ms = now();
    if (ms < latestMs) forget();
    latestMs = ms;
    return ms;
  };

  const counterOf = (check: RuleCheck) => counters.get(nameOf(check), Number.NEGATIVE_INFINITY);

  const findLease = (check: RuleCheck, ms: number): Found | undefined => {
    const counter = counterOf(check);
    const lease = counter && leaseFor(counter, check, ms);
    return lease && { counter, lease };
  };

  const use = ({ counter, lease }: Found, check: RuleCheck, ms: number, ledger: LeaseLedger) => {
    updatePace(counter, check.cost, ms);
    counter.used += check.cost;
    const remaining = useUnits(counter, lease, check.cost);
    if (lease.units === 0) open.delete(lease);
    const counted = lease.check.cost === check.cost ? lease.check : { ...lease.check, cost: check.cost };
    const charge = {
      store: lease.region.store,
      check: counted,
      chargedAtMs: lease.chargedAtMs,
      usedAtMs: ms,
    };
    const among = open;
    ledger.noteLeased(charge, () => {
      // All leases may have ended meanwhile.
      if (among !== open) return;
      putBackUnits(counter, lease, check.cost);
      open.add(lease);
    });
    const nowMs = lease.chargedAtMs + (ms - lease.heardAtMs);
    return { check: counted, outcome: outcomeWith(lease.outcome, { remaining, nowMs }) };
  };

  /** Removes the leases of a counter whose time is over. `takeIdle` returns them with the idle ones. */
  const endLeases = (counter: LeaseCounter, ms: number) => {
    for (const lease of counter.leases) if (lease.endsAtMs <= ms) giveUp(lease, ms);
    counter.leases = counter.leases.filter(({ endsAtMs }) => endsAtMs > ms);
  };

  const giveUp = (lease: Lease, ms: number) => {
    open.delete(lease);
    if (isWorthGivingBack(lease, ms) && givenUp.length < MAX_COUNTERS) givenUp.push({ ...lease });
    lease.units = 0;
  };

  const add = (counter: LeaseCounter, grant: LeaseGrant, ms: number) => {
    const { check, region, sentAtMs, chargedAtMs, outcome, whole } = grant;
    const endsAtMs = sentAtMs + lastsMs(check, chargedAtMs);
    const size = outcome.granted;
    // A request that uses units of this lease leases nothing itself.
    const each = { ...whole, granted: 0 };
    const charge = { region, check, chargedAtMs, sentAtMs, heardAtMs: ms, endsAtMs };
    const lease = { ...charge, outcome: each, size, units: size };
    counter.leases.push(lease);
    const [oldest] = open;
    if (oldest && open.size >= MAX_COUNTERS) giveUp(oldest, ms);
    open.add(lease);
  };

  return {
    /** Ends all leases from before a change of rules or a reset. */
    enter(announcement: string): void {
      if (announcement === current) return;
      current = announcement;
      forget();
    },

    announcement: () => current,

    /** Whether a lease has units for this check now. */
    has: (placed: PlacedCheck): boolean =>
      findLease(placed.check, nowMs()) !== undefined && !isBeingMoved(placed),

    /** Uses units for all of these checks, or for none. The ledger puts them back if the request is not admitted. */
    use(placed: readonly PlacedCheck[], ledger: LeaseLedger): CheckResult<RuleCheck>[] | undefined {
      const ms = nowMs();
      const found = mapStable(placed, ({ check }) => findLease(check, ms));
      if (!found.every((one) => one !== undefined)) return undefined;
      return mapStable(placed, ({ check }, i) => use(found[i] as Found, check, ms, ledger));
    },

    /**
     * Units to lease with this call, beyond the cost. If above 0, no other call leases until this one is answered.
     */
    claim([region]: Regions, placed: PlacedCheck, check: RuleCheck): number {
      if (!check.rule.lease) return 0;
      const ms = nowMs();
      const counter = counterOf(check);
      if (!counter || isAsking(counter, ms) || open.size >= MAX_COUNTERS || isBeingMoved(placed)) return 0;
      endLeases(counter, ms);
      updatePace(counter, check.cost, ms);
      const callMs = region.distance.ms() ?? 0;
      const pace = paceOf(counter, { check, ms, isolates: region.census.count(), callMs });
      const want = wantOf(check, pace);
      if (want > 0) ask(counter, want, ms);
      return want;
    },

    /** A call that asked for units was answered, whatever the answer. */
    answered(check: RuleCheck): void {
      const counter = counterOf(check);
      if (counter) counter.asked = 0;
    },

    /** Called after every denial, with the time by the clock of the region. */
    denied(check: RuleCheck, outcome: Outcome, atMs: number): void {
      const counter = counterOf(check);
      if (counter) noteRemaining(counter, { outcome, atMs, charged: 0 });
    },

    /** Called after every charge. Returns what is left of the whole limit, including this isolate's leased units. */
    note(grant: LeaseGrant): number {
      const { check, outcome, whole, usedNow, chargedAtMs } = grant;
      // The call was sent before a change or a reset, so its lease is of no use.
      if (!isLeasable(check) || grant.announcement !== current) return whole.remaining;
      const ms = nowMs();
      const known = counterOf(check);
      const counter = known ?? new LeaseCounter(ms);
      if (!known) counters.set(nameOf(check), counter, Number.POSITIVE_INFINITY);
      updatePace(counter, check.cost, ms);
      counter.used += usedNow;
      noteRemaining(counter, { outcome, atMs: chargedAtMs, charged: usedNow + outcome.granted });
      counter.aheadMs = chargedAtMs - grant.sentAtMs;
      const isLease = outcome.granted > 0 && lastsMs(check, chargedAtMs) > 0;
      if (isLease) endLeases(counter, ms);
      const left = noteLeft(counter, grant, isLease ? outcome.granted : 0, ms);
      if (isLease) add(counter, grant, ms);
      return left;
    },

    /** Whether the lease runs dry soon. */
    isLow(check: RuleCheck): boolean {
      const ms = nowMs();
      const counter = counterOf(check);
      return counter !== undefined && !isAsking(counter, ms) && isLow(counter, ms);
    },

    /** Removes leases that were not used in time. The caller gives them back. */
    takeIdle(): readonly Lease[] {
      if (open.size + givenUp.length === 0) return [];
      const ms = nowMs();
      for (const lease of open) {
        if (ms - lease.sentAtMs < IDLE_MS) break;
        giveUp(lease, ms);
      }
      return givenUp.splice(0, MAX_GIVEN_BACK);
    },

    /** Units leased of one counter; undefined if its rule is never leased. */
    unitsOf(check: RuleCheck): number | undefined {
      if (!isLeasable(check)) return undefined;
      return sumOf((counterOf(check)?.leases ?? []).filter(({ endsAtMs }) => endsAtMs > now()));
    },

    /** What this isolate has leased and not used yet. */
    total() {
      const live = [...open].filter(({ endsAtMs }) => endsAtMs > now());
      return { counters: new Set(live.map(({ check }) => nameOf(check))).size, units: sumOf(live) };
    },
  };
}

type LeaseLedger = Pick<Ledger, 'noteLeased'>;

interface Found {
  readonly counter: LeaseCounter;
  readonly lease: Lease;
}

/** Some charges count for longer than the lease lasts, so giving back helps even after its end. */
function isWorthGivingBack({ check, units, sentAtMs, endsAtMs }: Lease, ms: number): boolean {
  const lastsMs = traitsOf(check.algorithm).chargeLastsMs({ ...check, extra: check.extra });
  const counts = ms < endsAtMs || (lastsMs > check.windowMs && ms - sentAtMs < lastsMs);
  return units > 0 && counts;
}
