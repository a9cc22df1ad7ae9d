// Units that this isolate has charged in advance, and uses from memory: docs/leases.md. Everything here is synchronous;
// lease-upkeep.ts makes the calls.
import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { CheckResult } from '../core/counting/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { nameOf } from './known-cessions.ts';
import { isLeasable, lastsMs, wantOf } from './lease-terms.ts';
import type { Ledger } from './ledger.ts';
import { isBeingMoved, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

/** Units of one charge. */
export interface Lease {
  readonly region: LimiterRegion;
  /** As the region has charged it. */
  readonly check: RuleCheck;
  /** By the clock of the region. */
  readonly chargedAtMs: number;
  /** By the clock of this isolate, like all that follows: when the call was sent. */
  readonly sentAtMs: number;
  readonly heardAtMs: number;
  readonly endsAtMs: number;
  /** What the region said, of the whole limit: these units are not part of `remaining`. */
  readonly outcome: Outcome;
  readonly size: number;
  units: number;
}

/** The pace of this isolate at one counter, and what it has of it. */
interface Entry {
  sinceMs: number;
  used: number;
  unitsPerMs: number;
  /** In the region, as it last said. */
  remaining: number;
  /** What the clock of the region is ahead of this isolate's, at most. */
  aheadMs: number;
  /** Somebody has asked for a lease, and may still be told. */
  askingUntilMs: number;
  leases: Lease[];
}

/** A region has charged a check. */
export interface Granted {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** By the region's part, and of the whole limit. */
  readonly outcome: Outcome;
  readonly whole: Outcome;
  readonly sentAtMs: number;
  readonly chargedAtMs: number;
  /** Units that somebody has used already. */
  readonly usedNow: number;
  /** In which it was asked for. */
  readonly era: string;
}

export interface LeaseBook {
  /** What was leased under other rules, or before a reset, ends. */
  enter(era: string): void;
  era(): string;
  /** Whether there are units for this check now. */
  has(placed: PlacedCheck): boolean;
  /** Uses units for all of these checks, or for none. The ledger puts them back if the request is not admitted. */
  use(
    placed: readonly PlacedCheck[],
    ledger: Pick<Ledger, 'noteLeased'>,
  ): CheckResult<RuleCheck>[] | undefined;
  /** Units to lease with this call, beyond the cost. More than 0 claims the turn to ask. */
  claim(regions: Regions, placed: PlacedCheck, check: RuleCheck): number;
  /** After every charge of a check: the units that are leased by it. */
  note(granted: Granted): number;
  /** Whether the lease of it runs dry soon. */
  isLow(check: RuleCheck): boolean;
  /** Takes out what nobody has used in time, to be given back. */
  takeIdle(): readonly Lease[];
  total(): Leased;
}

export interface Leased {
  readonly counters: number;
  readonly units: number;
}

const MAX_COUNTERS = 10_000;
/** The pace is measured over so long at least. */
const MEASURE_MS = 250;
/** A call that was not answered by then has failed. */
const ASKING_MS = 1_000;
/** Units that were not used by then are given back. */
const IDLE_MS = 2_000;
/** After one request. */
const MAX_GIVEN_BACK = 50;
/** Of a lease: with less, it is time for the next one. */
const LOW = 0.4;

export function createLeaseBook(now: () => number): LeaseBook {
  let entries = createBoundedCache<Entry>(MAX_COUNTERS);
  /** Oldest first. It has all that still have units, also those whose counters were forgotten. */
  let open = new Set<Lease>();
  let givenUp: Lease[] = [];
  let currentEra = '';
  let latestMs = Number.NEGATIVE_INFINITY;

  const forget = () => {
    entries = createBoundedCache<Entry>(MAX_COUNTERS);
    open = new Set();
    givenUp = [];
  };

  /** What was leased until a moment of a clock that was put back would last too long. */
  const nowMs = () => {
    const ms = now();
    if (ms < latestMs) forget();
    latestMs = ms;
    return ms;
  };

  const entryOf = (check: RuleCheck) => entries.get(nameOf(check), Number.NEGATIVE_INFINITY);

  const measure = (entry: Entry, units: number, ms: number) => {
    const passedMs = ms - entry.sinceMs;
    if (passedMs >= MEASURE_MS) {
      entry.unitsPerMs = entry.used / passedMs;
      entry.used = 0;
      entry.sinceMs = ms;
    }
    entry.used += units;
  };

  const leaseFor = (check: RuleCheck, ms: number): Lease | undefined =>
    entryOf(check)?.leases.find(
      (lease) => lease.endsAtMs > ms && lease.units >= check.cost && isFor(lease, check),
    );

  const use = (lease: Lease, check: RuleCheck, ms: number, ledger: Pick<Ledger, 'noteLeased'>) => {
    lease.units -= check.cost;
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
      // Not if all leases have ended meanwhile.
      if (among !== open) return;
      lease.units += check.cost;
      open.add(lease);
    });
    return { check: counted, outcome: outcomeOf(lease, ms) };
  };

  /** What they still have is given back with what is idle. */
  const endLeases = (entry: Entry, ms: number) => {
    for (const lease of entry.leases) if (lease.endsAtMs <= ms) giveUp(lease, ms);
    entry.leases = entry.leases.filter(({ endsAtMs }) => endsAtMs > ms);
  };

  const giveUp = (lease: Lease, ms: number) => {
    open.delete(lease);
    if (isWorthGivingBack(lease, ms) && givenUp.length < MAX_COUNTERS) givenUp.push({ ...lease });
    lease.units = 0;
  };

  const add = (entry: Entry, granted: Granted, ms: number): number => {
    const { check, region, sentAtMs, chargedAtMs } = granted;
    const units = granted.outcome.granted;
    const goodMs = lastsMs(check, chargedAtMs);
    endLeases(entry, ms);
    if (goodMs <= 0) return 0;
    const end = { endsAtMs: sentAtMs + goodMs, outcome: granted.whole };
    const lease = { region, check, chargedAtMs, sentAtMs, heardAtMs: ms, size: units, units, ...end };
    entry.leases.push(lease);
    open.add(lease);
    return units;
  };

  return {
    enter(era) {
      if (era === currentEra) return;
      currentEra = era;
      forget();
    },

    era: () => currentEra,

    has: (placed) => leaseFor(placed.check, nowMs()) !== undefined && !isBeingMoved(placed),

    use(placed, ledger) {
      const ms = nowMs();
      const found = placed.map(({ check }) => leaseFor(check, ms));
      if (!found.every((lease) => lease !== undefined)) return undefined;
      return placed.map(({ check }, i) => {
        const entry = entryOf(check);
        if (entry) measure(entry, check.cost, ms);
        return use(found[i] as Lease, check, ms, ledger);
      });
    },

    claim(regions, placed, check) {
      const [region] = regions;
      const ms = nowMs();
      const entry = entryOf(check);
      if (!entry || entry.askingUntilMs > ms || open.size >= MAX_COUNTERS || isBeingMoved(placed)) return 0;
      endLeases(entry, ms);
      const pace = { ...entry, isolates: region.census.count(), nowMs: ms + entry.aheadMs };
      const want = wantOf(check, pace);
      if (want > 0) entry.askingUntilMs = ms + ASKING_MS;
      return want;
    },

    note(granted) {
      const { check, outcome, usedNow } = granted;
      // The answer of a call from before a change, or a reset, is of no use.
      if (!isLeasable(check) || granted.era !== currentEra) return 0;
      const ms = nowMs();
      const known = entryOf(check);
      const entry = known ?? createEntry(ms);
      if (!known) entries.set(nameOf(check), entry, Number.POSITIVE_INFINITY);
      measure(entry, usedNow, ms);
      entry.remaining = outcome.remaining;
      entry.aheadMs = granted.chargedAtMs - granted.sentAtMs;
      if (outcome.granted === 0) return 0;
      entry.askingUntilMs = 0;
      return add(entry, granted, ms);
    },

    isLow(check) {
      const ms = nowMs();
      const entry = entryOf(check);
      if (!entry || entry.askingUntilMs > ms) return false;
      const live = entry.leases.filter((lease) => lease.endsAtMs > ms);
      const units = live.reduce((sum, lease) => sum + lease.units, 0);
      return units < LOW * (live.at(-1)?.size ?? 0);
    },

    takeIdle() {
      if (open.size + givenUp.length === 0) return [];
      const ms = nowMs();
      for (const lease of open) {
        if (ms - lease.sentAtMs < IDLE_MS) break;
        giveUp(lease, ms);
      }
      return givenUp.splice(0, MAX_GIVEN_BACK);
    },

    total() {
      const live = [...open].filter(({ endsAtMs }) => endsAtMs > now());
      const units = live.reduce((sum, lease) => sum + lease.units, 0);
      return { counters: new Set(live.map(({ check }) => nameOf(check))).size, units };
    },
  };
}

const createEntry = (sinceMs: number): Entry => ({
  sinceMs,
  used: 0,
  unitsPerMs: 0,
  remaining: 0,
  aheadMs: 0,
  askingUntilMs: 0,
  leases: [],
});

/** Another limit is another question. */
const isFor = ({ check: { full } }: Lease, check: RuleCheck): boolean =>
  full.limit === check.full.limit && full.extra === check.full.extra;

/** Of the whole limit: units that are leased are not used. */
function outcomeOf({ outcome, units, heardAtMs, chargedAtMs }: Lease, ms: number): Outcome {
  const remaining = outcome.remaining + units;
  return { ...outcome, remaining, granted: 0, nowMs: chargedAtMs + (ms - heardAtMs) };
}

/** A charge that counts for longer than a window does so after the end of its lease, too. */
function isWorthGivingBack({ check, units, sentAtMs, endsAtMs }: Lease, ms: number): boolean {
  const lastsMs = traitsOf(check.algorithm).chargeLastsMs({ ...check, extra: check.extra });
  const counts = ms < endsAtMs || (lastsMs > check.windowMs && ms - sentAtMs < lastsMs);
  return units > 0 && counts;
}
