// How much a counter can hold at once.
import { ceilDivide } from './algorithms/algorithm.ts';
import { type AlgorithmId, traitsOf } from './algorithms/registry.ts';

export interface Holding {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly extra?: number | undefined;
}

export const hasBurst = ({ algorithm }: Pick<Holding, 'algorithm'>): boolean =>
  traitsOf(algorithm).extra === 'burst';

/** The answer of one bucket: a counter of units that drain at the pace of its limit. */
interface BucketAnswer extends Holding {
  readonly windowMs: number;
  readonly remaining: number;
  /** How long until this bucket is free again. */
  readonly freeInMs: number;
}

/**
 * How long until a bucket of that limit is free again, if it holds what these buckets hold. The answers tell that to a
 * millisecond. This is never too early, and exact for whole units.
 */
export function drainMs(buckets: readonly BucketAnswer[], limit: number): number {
  let level = 0;
  for (const { windowMs, remaining, freeInMs, ...bucket } of buckets) {
    const byTime = Math.max(0, freeInMs) * bucket.limit;
    // A bucket without room may hold more than its capacity.
    level += remaining > 0 ? Math.min(byTime, (capacityOf(bucket) - remaining) * windowMs) : byTime;
  }
  return ceilDivide(level, limit);
}

/** The most units that fit at once. A bucket whose limit is 0 never refills, so its capacity is 0. */
export const capacityOf = ({ algorithm, limit, extra = limit }: Holding): number =>
  hasBurst({ algorithm }) && limit > 0 ? extra : limit;
