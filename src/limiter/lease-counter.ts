// One counter that an isolate may lease from: its leases, and what is left of the limit. Units that are leased and not
// used count as left.

import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { LeasePace } from './lease-terms.ts';
import type { LimiterRegion } from './region.ts';

/** A measurement of the pace takes at least this time. */
const MEASURE_MS = 250;
/** A measurement also covers this many requests, because a few requests say little about a slow pace. */
const MEASURED_REQUESTS = 10;
/** If ten requests take longer than this, their pace is too slow for a lease. */
const LONGEST_MEASURE_MS = 2_000;
/** After a longer pause, the earlier pace says nothing. */
const LONGEST_PAUSE_MS = 60_000;
/**
 * When this isolate has charged more units than this, it halves both sums of charges, so that newer charges weigh more.
 * Other isolates charge a hundred units at once, so a smaller number would say little about them.
 */
const CHARGED_LATELY = 500;

/** How fast this isolate and all isolates use a counter, and what is left in it. lease-terms.ts uses these numbers. */
export class LeaseCounter {
  /** The start of the current measurement of the pace. */
  sinceMs: number;
  used = 0;
  unitsPerMs = 0;
  /** The pace in the measurement before. */
  unitsPerMsBefore = 0;
  /** What is left in the region, by its last answer. */
  remaining = 0;
  /** When all of the limit is free again, by the clock of the region. */
  resetAtMs = 0;
  /** Units that this isolate has charged lately, and units that other isolates have charged meanwhile. */
  charged = 0;
  chargedByOthers = 0;
  /** How far the region's clock is ahead of this isolate's, at most. */
  aheadMs = 0;
  /** Units of a lease call that is still in flight. */
  asked = 0;
  askingUntilMs = 0;
  leases: Lease[] = [];
  left: Left | undefined;

  constructor(sinceMs: number) {
    this.sinceMs = sinceMs;
  }
}

/** Ends the current measurement of the pace if it covers enough time and requests. */
export function updatePace(counter: LeaseCounter, cost: number, ms: number): void {
  const passedMs = ms - counter.sinceMs;
  const isEnough = counter.used >= MEASURED_REQUESTS * cost || passedMs >= LONGEST_MEASURE_MS;
  if (passedMs < MEASURE_MS || !isEnough) return;
  // Nothing was left, so requests were denied meanwhile. Their pace is still the same.
  const isPause = counter.remaining < cost && passedMs < LONGEST_PAUSE_MS;
  if (!isPause) {
    counter.unitsPerMsBefore = counter.unitsPerMs;
    counter.unitsPerMs = counter.used / passedMs;
  }
  counter.used = 0;
  counter.sinceMs = ms;
}

/** An answer of the region. */
export interface RegionAnswer {
  readonly outcome: Pick<Outcome, 'remaining' | 'resetAtMs'>;
  /** By the clock of the region. */
  readonly atMs: number;
  /** Units that the call has charged. */
  readonly charged: number;
}

/**
 * Compares what is left with the region's last answer. Other isolates have charged the missing units that this isolate
 * has not charged.
 */
export function noteRemaining(counter: LeaseCounter, { outcome, atMs, charged }: RegionAnswer): void {
  const isComparable = atMs < counter.resetAtMs;
  if (isComparable) {
    counter.charged += charged;
    counter.chargedByOthers += Math.max(0, counter.remaining - outcome.remaining - charged);
  }
  if (counter.charged > CHARGED_LATELY) {
    counter.charged /= 2;
    counter.chargedByOthers /= 2;
  }
  counter.remaining = outcome.remaining;
  counter.resetAtMs = outcome.resetAtMs;
}

/** A call that may lease. */
export interface LeaseCall {
  readonly check: RuleCheck;
  readonly ms: number;
  /** Isolates of the region, of which few may use this counter. */
  readonly isolates: number;
  readonly callMs: number;
}

export function paceOf(
  counter: Readonly<LeaseCounter>,
  { check, ms, isolates, callMs }: LeaseCall,
): LeasePace {
  const { unitsPerMs, unitsPerMsBefore, charged, chargedByOthers } = counter;
  const nowMs = ms + counter.aheadMs;
  const remaining = nowMs < counter.resetAtMs ? counter.remaining : check.limit;
  const rivals = charged > 0 ? 1 + chargedByOthers / charged : isolates;
  return { unitsPerMs, unitsPerMsBefore, remaining, isolates: Math.min(isolates, rivals), nowMs, callMs };
}

/** Units of one charge. */
export interface Lease {
  readonly region: LimiterRegion;
  /** The check as the region has charged it. */
  readonly check: RuleCheck;
  /** By the clock of the region. */
  readonly chargedAtMs: number;
  /** When the call was sent. This time and those below are by the clock of this isolate. */
  readonly sentAtMs: number;
  readonly heardAtMs: number;
  readonly endsAtMs: number;
  /** The outcome for the whole limit. `remaining` does not include the leased units. */
  readonly outcome: Outcome;
  readonly size: number;
  units: number;
}

/** A region has charged a check. */
export interface LeaseGrant {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** The outcome for the region's part; `whole` is that for the whole limit. */
  readonly outcome: Outcome;
  readonly whole: Outcome;
  readonly sentAtMs: number;
  readonly chargedAtMs: number;
  /** Units of the charge that the request itself has used. */
  readonly usedNow: number;
  /** The announcement in force when the call was sent. */
  readonly announcement: string;
}

/** What was last known to be left of the whole limit, minus the units used from memory since. */
interface Left {
  readonly check: RuleCheck;
  readonly region: LimiterRegion;
  /** By the clock of the region: the time of that answer, and when the counter starts over. */
  readonly chargedAtMs: number;
  readonly resetAtMs: number;
  units: number;
}

export const sumOf = (leases: readonly Lease[]): number => leases.reduce((sum, { units }) => sum + units, 0);

/** When a lease has only this part left, it is time for the next one. */
const LOW = 0.4;

export const leaseFor = (counter: LeaseCounter, check: RuleCheck, ms: number): Lease | undefined =>
  counter.leases.find(
    (lease) => lease.endsAtMs > ms && lease.units >= check.cost && isSameLimit(lease.check, check),
  );

/** A lease call without an answer after this time has failed. */
const ASKING_MS = 1_000;

export function ask(counter: LeaseCounter, units: number, ms: number): void {
  counter.asked = units;
  counter.askingUntilMs = ms + ASKING_MS;
}

/** Units of a lease call in flight. */
const askedUnits = ({ asked, askingUntilMs }: LeaseCounter, ms: number): number =>
  askingUntilMs > ms ? asked : 0;

export const isAsking = (counter: LeaseCounter, ms: number): boolean => askedUnits(counter, ms) > 0;

/** Whether the counter's leases run dry soon. */
export function isLow({ leases }: LeaseCounter, ms: number): boolean {
  const live = leases.filter(({ endsAtMs }) => endsAtMs > ms);
  return sumOf(live) < LOW * (live.at(-1)?.size ?? 0);
}

/** A lease of another limit does not fit the check. */
const isSameLimit = ({ full }: RuleCheck, check: RuleCheck): boolean =>
  full.limit === check.full.limit && full.extra === check.full.extra;

/**
 * What is left of the whole limit after this charge. The lease of this charge is not among the leases yet. The isolate
 * cannot tell whether the region charged a lease call in flight before this charge or after it. So the isolate takes
 * what should be left if no other isolate has used units meanwhile, within the bounds that the answer sets.
 */
export function noteLeft(counter: LeaseCounter, grant: LeaseGrant, leased: number, ms: number): number {
  const { whole, check, region, chargedAtMs, usedNow } = grant;
  const held = counter.leases.filter((lease) => lease.endsAtMs > ms && lease.region === region);
  const before = held.filter((lease) => lease.chargedAtMs < chargedAtMs);
  const least = whole.remaining + leased + sumOf(before);
  const inDoubt = askedUnits(counter, ms) + sumOf(held.filter((lease) => lease.chargedAtMs === chargedAtMs));
  const units = Math.max(least, Math.min(least + inDoubt, expectedLeft(counter, grant) - usedNow));
  const { left } = counter;
  const isOlder = left && left.region === region && chargedAtMs < left.chargedAtMs;
  if (!isOlder) counter.left = { check, region, chargedAtMs, resetAtMs: whole.resetAtMs, units };
  return units;
}

function expectedLeft({ left }: LeaseCounter, { check, region, chargedAtMs }: LeaseGrant): number {
  const isKnown = left && left.region === region && isSameLimit(left.check, check);
  return isKnown && left.resetAtMs > chargedAtMs ? left.units : check.full.limit;
}

/** Uses units of a lease. Returns what is left of the whole limit. */
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
