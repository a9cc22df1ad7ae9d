// Measures how fast this isolate and all isolates use a counter, and what is left in the counter. lease-terms.ts uses
// these numbers.
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Pace } from './lease-terms.ts';

export interface Measured {
  /** The start of the current measurement of the pace. */
  sinceMs: number;
  used: number;
  unitsPerMs: number;
  /** The pace in the measurement before. */
  unitsPerMsBefore: number;
  /** What is left in the region, by its last answer. */
  remaining: number;
  /** When all of the limit is free again, by the clock of the region. */
  resetAtMs: number;
  /** Units that this isolate has charged lately, and units that other isolates have charged meanwhile. */
  charged: number;
  chargedByOthers: number;
  /** How far the region's clock is ahead of this isolate's, at most. */
  aheadMs: number;
}

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

export const startMeasuring = (sinceMs: number): Measured => ({
  sinceMs,
  used: 0,
  unitsPerMs: 0,
  unitsPerMsBefore: 0,
  remaining: 0,
  resetAtMs: 0,
  charged: 0,
  chargedByOthers: 0,
  aheadMs: 0,
});

/** Ends the current measurement of the pace if it covers enough time and requests. */
export function updatePace(measured: Measured, cost: number, ms: number): void {
  const passedMs = ms - measured.sinceMs;
  const isEnough = measured.used >= MEASURED_REQUESTS * cost || passedMs >= LONGEST_MEASURE_MS;
  if (passedMs < MEASURE_MS || !isEnough) return;
  // Nothing was left, so requests were denied meanwhile. Their pace is still the same.
  const isPause = measured.remaining < cost && passedMs < LONGEST_PAUSE_MS;
  if (!isPause) {
    measured.unitsPerMsBefore = measured.unitsPerMs;
    measured.unitsPerMs = measured.used / passedMs;
  }
  measured.used = 0;
  measured.sinceMs = ms;
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
export function noteRemaining(measured: Measured, { outcome, atMs, charged }: RegionAnswer): void {
  const isComparable = atMs < measured.resetAtMs;
  if (isComparable) {
    measured.charged += charged;
    measured.chargedByOthers += Math.max(0, measured.remaining - outcome.remaining - charged);
  }
  if (measured.charged > CHARGED_LATELY) {
    measured.charged /= 2;
    measured.chargedByOthers /= 2;
  }
  measured.remaining = outcome.remaining;
  measured.resetAtMs = outcome.resetAtMs;
}

/** What the isolate knows when it makes a call. */
export interface Calling {
  readonly check: RuleCheck;
  readonly ms: number;
  /** Isolates of the region, of which few may use this counter. */
  readonly isolates: number;
  readonly callMs: number;
}

export function paceOf(measured: Readonly<Measured>, { check, ms, isolates, callMs }: Calling): Pace {
  const { unitsPerMs, unitsPerMsBefore, charged, chargedByOthers } = measured;
  const nowMs = ms + measured.aheadMs;
  const remaining = nowMs < measured.resetAtMs ? measured.remaining : check.limit;
  const rivals = charged > 0 ? 1 + chargedByOthers / charged : isolates;
  return { unitsPerMs, unitsPerMsBefore, remaining, isolates: Math.min(isolates, rivals), nowMs, callMs };
}
