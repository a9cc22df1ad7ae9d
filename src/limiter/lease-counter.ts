// What an isolate knows of one counter that it may lease from: how fast it uses units, the leases it has, and what is left
// of the limit. Units that the isolate has leased and not used count as left.
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { LimiterRegion } from './region-ladder.ts';

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

/** What was last told of the whole limit, less what was used from memory since. */
interface Left {
  readonly check: RuleCheck;
  readonly region: LimiterRegion;
  /** By the clock of the region: the answer that told it, and when the counter begins anew. */
  readonly chargedAtMs: number;
  readonly resetAtMs: number;
  units: number;
}

export interface LeaseCounter {
  /** The pace of this isolate is measured from then on. */
  sinceMs: number;
  used: number;
  unitsPerMs: number;
  /** In the time measured before. A burst is no pace: it is over when a lease would come. */
  unitsPerMsBefore: number;
  /** In the region, as it last said. */
  remaining: number;
  /** What the clock of the region is ahead of this isolate's, at most. */
  aheadMs: number;
  /** A call has asked for so many units, and may still be answered. */
  asked: number;
  askingUntilMs: number;
  leases: Lease[];
  left?: Left | undefined;
}

/** The pace is measured over so long at least. */
const MEASURE_MS = 250;
/** After a longer one, the pace of before says nothing. */
const LONGEST_PAUSE_MS = 60_000;
/** Of a lease: with less, it is time for the next one. */
const LOW = 0.4;

export const createLeaseCounter = (sinceMs: number): LeaseCounter => ({
  sinceMs,
  used: 0,
  unitsPerMs: 0,
  unitsPerMsBefore: 0,
  remaining: 0,
  aheadMs: 0,
  asked: 0,
  askingUntilMs: 0,
  leases: [],
});

export function measure(counter: LeaseCounter, units: number, ms: number): void {
  const passedMs = ms - counter.sinceMs;
  // Nothing was left: requests were denied meanwhile, and their pace is still the same.
  const isPause = counter.remaining < units && passedMs < LONGEST_PAUSE_MS;
  if (isPause && passedMs >= MEASURE_MS) {
    counter.used = 0;
    counter.sinceMs = ms;
  } else if (passedMs >= MEASURE_MS) {
    counter.unitsPerMsBefore = counter.unitsPerMs;
    counter.unitsPerMs = counter.used / passedMs;
    counter.used = 0;
    counter.sinceMs = ms;
  }
  counter.used += units;
}

export const leaseFor = (counter: LeaseCounter, check: RuleCheck, ms: number): Lease | undefined =>
  counter.leases.find(
    (lease) => lease.endsAtMs > ms && lease.units >= check.cost && isSameLimit(lease.check, check),
  );

/** A call that was not answered by then has failed. */
const ASKING_MS = 1_000;

export function ask(counter: LeaseCounter, units: number, ms: number): void {
  counter.asked = units;
  counter.askingUntilMs = ms + ASKING_MS;
}

/** Units of a call that is on its way. */
const askedUnits = ({ asked, askingUntilMs }: LeaseCounter, ms: number): number =>
  askingUntilMs > ms ? asked : 0;

export const isAsking = (counter: LeaseCounter, ms: number): boolean => askedUnits(counter, ms) > 0;

/** Whether its leases run dry soon. */
export function isLow({ leases }: LeaseCounter, ms: number): boolean {
  const live = leases.filter(({ endsAtMs }) => endsAtMs > ms);
  const units = live.reduce((sum, lease) => sum + lease.units, 0);
  return units < LOW * (live.at(-1)?.size ?? 0);
}

/** Another limit is another question. */
const isSameLimit = ({ full }: RuleCheck, check: RuleCheck): boolean =>
  full.limit === check.full.limit && full.extra === check.full.extra;

/**
 * What is left of the whole limit, once the region has charged this; its own lease is not among the leases yet. A call
 * that has asked for a lease and is on its way may have been charged before this one or not: nobody can tell. If other
 * isolates have used nothing meanwhile, the isolate knows what must be left, and that decides.
 */
export function noteLeft(counter: LeaseCounter, granted: Granted, leased: number, ms: number): number {
  const { whole, check, region, chargedAtMs, usedNow } = granted;
  const held = counter.leases.filter((lease) => lease.endsAtMs > ms && lease.region === region);
  const sum = (leases: readonly Lease[]) => leases.reduce((units, lease) => units + lease.units, 0);
  const before = held.filter((lease) => lease.chargedAtMs < chargedAtMs);
  const least = whole.remaining + leased + sum(before);
  const inDoubt = askedUnits(counter, ms) + sum(held.filter((lease) => lease.chargedAtMs === chargedAtMs));
  const units = Math.max(least, Math.min(least + inDoubt, expectedLeft(counter, granted) - usedNow));
  const { left } = counter;
  const isOlder = left && left.region === region && chargedAtMs < left.chargedAtMs;
  if (!isOlder) counter.left = { check, region, chargedAtMs, resetAtMs: whole.resetAtMs, units };
  return units;
}

function expectedLeft({ left }: LeaseCounter, { check, region, chargedAtMs }: Granted): number {
  const isKnown = left && left.region === region && isSameLimit(left.check, check);
  return isKnown && left.resetAtMs > chargedAtMs ? left.units : check.full.limit;
}

/** Uses units of a lease: what is left then. */
export function useUnits({ left }: LeaseCounter, lease: Lease, units: number): number {
  lease.units -= units;
  const isKnown = left && left.region === lease.region && isSameLimit(left.check, lease.check);
  if (!isKnown) return lease.outcome.remaining + lease.units;
  left.units -= units;
  return left.units;
}

export function putBackUnits({ left }: LeaseCounter, lease: Lease, units: number): void {
  lease.units += units;
  if (left?.region === lease.region) left.units += units;
}
