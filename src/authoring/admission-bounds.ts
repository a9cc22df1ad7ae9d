// Bounds for a period of which Weir knows only the sum of units: the most that a limit admits of one subject, and how
// much a subject can use before a denial. They hold for every algorithm that counts over time.
import { type AlgorithmId, traitsOf } from '../core/counting/algorithms/registry.ts';
import { capacityOf, hasBurst } from '../core/counting/capacity.ts';

export interface CountedLimit {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowMs: number;
  /** Burst or number of buckets; undefined for the default. */
  readonly extra?: number | undefined;
}

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The number of held seats says nothing about the number of requests that pass in an hour. */
export const hasAdmissionBounds = (algorithm: AlgorithmId): boolean =>
  traitsOf(algorithm).holdsSeats !== true;

/** An upper bound: a burst plus what drains meanwhile, or the whole limit in each window that the span touches. */
export function mostAdmitted(counted: CountedLimit, { fromMs, toMs }: Span): number {
  const { limit, windowMs } = counted;
  if (hasBurst(counted)) return capacityOf(counted) + Math.floor((limit * (toMs - fromMs)) / windowMs);
  const windows = Math.ceil(toMs / windowMs) - Math.floor(fromMs / windowMs);
  return limit * windows;
}

/** The most in any period of that length that starts at a multiple of it, such as an hour of the clock. */
export function mostAdmittedInAny(counted: CountedLimit, periodMs: number): number {
  const { windowMs } = counted;
  // If one length is a multiple of the other, every period touches the same number of windows.
  const isAligned = periodMs % windowMs === 0 || windowMs % periodMs === 0;
  if (isAligned || traitsOf(counted.algorithm).extra === 'burst')
    return mostAdmitted(counted, { fromMs: 0, toMs: periodMs });
  return counted.limit * (Math.ceil(periodMs / windowMs) + 1);
}

/** A subject that never uses more than the capacity within this time is never denied. */
export const deniesWithinMs = ({ algorithm, limit, windowMs, extra }: CountedLimit): number =>
  traitsOf(algorithm).chargeLastsMs({ limit, windowMs, extra });
