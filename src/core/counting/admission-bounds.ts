// What a limit lets through of one subject over a time of which only the sum is known: the most that it can admit, and
// how much may come before it can deny anything. Pure, and true for every algorithm that counts over time.
import { type AlgorithmId, traitsOf } from './algorithms/registry.ts';

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

/** How many seats are held says nothing about how many requests pass in an hour. */
export const hasAdmissionBounds = (algorithm: AlgorithmId): boolean =>
  traitsOf(algorithm).holdsSeats !== true;

/** A burst, or the limit: the most units that pass at once. */
export const capacityOf = ({ algorithm, limit, extra }: CountedLimit): number =>
  traitsOf(algorithm).extra === 'burst' ? (extra ?? limit) : limit;

/** Never less than what passes: a burst and what drains meanwhile, or the whole limit in each window that is touched. */
export function mostAdmitted(counted: CountedLimit, { fromMs, toMs }: Span): number {
  const { algorithm, limit, windowMs } = counted;
  if (traitsOf(algorithm).extra === 'burst')
    return capacityOf(counted) + Math.floor((limit * (toMs - fromMs)) / windowMs);
  const windows = Math.ceil(toMs / windowMs) - Math.floor(fromMs / windowMs);
  return limit * windows;
}

/** The most in any period of that length which begins at a multiple of it, such as any hour of the clock. */
export function mostAdmittedInAny(counted: CountedLimit, periodMs: number): number {
  const { windowMs } = counted;
  // Borders of windows and of periods meet once in this time: all that can happen happens at its start, or at its end.
  const isAligned = periodMs % windowMs === 0 || windowMs % periodMs === 0;
  if (isAligned || traitsOf(counted.algorithm).extra === 'burst')
    return mostAdmitted(counted, { fromMs: 0, toMs: periodMs });
  return counted.limit * (Math.ceil(periodMs / windowMs) + 1);
}

/** A subject whose units in every time of this length stay within the capacity is never denied. */
export const deniesWithinMs = ({ algorithm, limit, windowMs, extra }: CountedLimit): number =>
  traitsOf(algorithm).chargeLastsMs({ limit, windowMs, extra });
