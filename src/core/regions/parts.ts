// Splits a limit over several regions: each has a part, and the parts add up to the limit exactly.
//
// Why no sum over regions exceeds the limit: let each region i keep to its part, and look at all regions together.
// - fixed-window, sliding-window-buckets: windows and buckets are cut by the epoch, so they are the same everywhere:
//   a sum of parts in one window is at most the sum of the parts.
// - sliding-window-log, concurrency: the same for any true window, and for any moment.
// - sliding-window-counter: the estimate p·(1−e/W) + c is linear in p and c, and between two charges it only
//   falls, so all regions are within their parts at every moment: the sum of their estimates is the estimate of
//   the sum.
// - token-bucket, leaky-bucket, gcra: a region admits at most burst_i + t·limit_i/W in any time t. Both terms add up
//   to those of the whole, because limit and burst are each split without a rest. None of them rounds: levels
//   are whole numbers of units times the window.
// Where windows are cut by the epoch, "the same everywhere" requires clocks that agree. The other algorithms only
// require clocks that run at the same pace.

import type { AlgorithmId } from '../counting/algorithms/registry.ts';
import { capacityOf, hasBurst } from '../counting/capacity.ts';
import { hash } from '../counting/keys.ts';

export interface WeightedRegion {
  readonly name: string;
  /** The weight of the region, relative to the others; 0 for no part. */
  readonly share: number;
}

/** The fields of a check that are split. */
export interface SplitLimit {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly extra?: number | undefined;
  readonly cost: number;
}

export interface Part {
  readonly limit: number;
  readonly extra: number | undefined;
}

export type Parts = ReadonlyMap<string, Part>;

/**
 * Whole parts that add up to `total`, in proportion to the weights. Each next unit goes to the region furthest behind
 * (Webster's method); of two equal regions, the first one gets it. So a larger total makes no part smaller: while some
 * isolates use the old limit and some the new one, no more passes than the larger limit allows. Weights are read as
 * decimals: 0.1 and 0.3 are 1 to 3.
 */
export function splitExactly(total: number, weights: readonly number[]): number[] {
  const exact = toWhole(weights);
  const sum = exact.reduce((so, weight) => so + weight, 0n);
  if (sum === 0n) throw new RangeError('no weight is above 0');
  // No region is ever further behind than this, so the first units need not be given one by one.
  const certain = (weight: bigint) => (BigInt(total) * weight) / sum - BigInt(weights.length);
  const parts = exact.map((weight) => (certain(weight) > 0n ? certain(weight) : 0n));
  for (let left = BigInt(total) - parts.reduce((so, part) => so + part, 0n); left > 0n; left -= 1n) {
    const next = parts.reduce((best, _, i) => (isBehind(i, best, exact, parts) ? i : best), 0);
    parts[next] = (parts[next] ?? 0n) + 1n;
  }
  return parts.map(Number);
}

/** Whether one has less for its weight than the other, counting half of the unit to come. */
function isBehind(one: number, other: number, weights: readonly bigint[], parts: readonly bigint[]): boolean {
  const [mine = 0n, theirs = 0n] = [weights[one], weights[other]];
  return mine * (2n * (parts[other] ?? 0n) + 1n) > theirs * (2n * (parts[one] ?? 0n) + 1n);
}

/** The same proportions as whole numbers: all multiplied by one power of ten. */
function toWhole(weights: readonly number[]): bigint[] {
  const decimals = weights.map((weight) => {
    const [digits = '', exponent = '0'] = String(weight).split('e');
    const [whole = '', fraction = ''] = digits.split('.');
    return { digits: BigInt(whole + fraction), exponent: Number(exponent) - fraction.length };
  });
  const lowest = Math.min(...decimals.map(({ exponent }) => exponent));
  return decimals.map(({ digits, exponent }) => digits * 10n ** BigInt(exponent - lowest));
}

/** Whether a request of that cost can ever pass with this part alone. */
export const isUsable = ({ algorithm, cost }: SplitLimit, part: Part): boolean =>
  capacityOf({ algorithm, limit: part.limit, extra: part.extra }) >= cost;

/** The part of each region. A region that is not listed has none. Limits and bursts each add up to the whole. */
export function partsOf(counting: SplitLimit, regions: readonly WeightedRegion[]): Parts {
  const weighted = withShare(regions);
  const parts = splitOver(counting, weighted);
  const usable = weighted.filter((_, i) => isUsable(counting, parts[i] ?? NOTHING));
  if (usable.length === weighted.length) return named(weighted, parts);
  // A part needs both a limit and a burst to be of use, so they go to the regions that can have both.
  const fewer = usable.length > 0 ? usable : [heaviest(weighted)];
  return named(fewer, splitOver(counting, fewer));
}

function splitOver(counting: SplitLimit, regions: readonly WeightedRegion[]): Part[] {
  const { limit, extra, cost } = counting;
  const weights = regions.map(({ share }) => share);
  if (extra === undefined || !hasBurst(counting))
    return splitByCost(limit, cost, weights).map((part) => ({ limit: part, extra }));
  const limits = splitExactly(limit, weights);
  return splitByCost(extra, cost, weights).map((part, i) => ({ limit: limits[i] ?? 0, extra: part }));
}

/**
 * Splits in whole requests, so that no part has an unusable rest. The rest of the total goes to the heaviest region.
 */
function splitByCost(total: number, cost: number, weights: readonly number[]): number[] {
  const rest = total % cost;
  const most = weights.indexOf(Math.max(...weights));
  return splitExactly((total - rest) / cost, weights).map((part, i) => part * cost + (i === most ? rest : 0));
}

const NOTHING: Part = { limit: 0, extra: 0 };

const heaviest = (regions: readonly WeightedRegion[]): WeightedRegion =>
  regions.reduce((best, one) => (one.share > best.share ? one : best));

const named = (regions: readonly WeightedRegion[], parts: readonly Part[]): Parts =>
  new Map(regions.map(({ name }, i) => [name, parts[i] ?? NOTHING]));

/**
 * If no region has a share (a rule's shares may name regions that were removed), all regions get the same share, so the
 * rule still limits.
 */
function withShare(regions: readonly WeightedRegion[]): readonly WeightedRegion[] {
  const weighted = regions.filter(({ share }) => share > 0);
  return weighted.length > 0 ? weighted : regions.map(({ name }) => ({ name, share: 1 }));
}

/**
 * The region that counts a subject centrally, by weighted rendezvous hashing: each region draws a number for the
 * subject, and the best one wins. If a region is added or removed, only the subjects that it wins move.
 */
export function centralRegionOf(subjectKey: string, regions: readonly WeightedRegion[]): string {
  const subject = hash(subjectKey);
  const drawn = withShare(regions).map(({ name, share }) => ({
    name,
    wait: waitFor(hash(name, subject), share),
  }));
  if (drawn.length === 0) throw new RangeError('there are no regions');
  // The smaller name wins a tie, so that the order of the regions does not matter.
  return drawn.reduce((best, one) =>
    one.wait < best.wait || (one.wait === best.wait && one.name < best.name) ? one : best,
  ).name;
}

/** Exponential waiting times: each region comes first with a probability proportional to its weight. */
const waitFor = (drawn: number, rate: number) => -Math.log((drawn + 0.5) / 2 ** 32) / rate;
