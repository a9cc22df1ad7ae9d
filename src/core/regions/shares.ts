// How one limit is kept over several regions: each has a part of it, and the parts add up to the limit exactly.
//
// Why no sum over regions exceeds the limit: let region i keep its part, and look at all of them together.
// - fixed-window, sliding-window-buckets: windows and buckets are cut by the epoch, so they are the same everywhere:
//   a sum of parts in one window is at most the sum of the parts.
// - sliding-window-log, concurrency: the same for any true window, and for any moment.
// - sliding-window-counter: the estimate p·(1−e/W) + c is linear in p and c, and between two charges it only
//   falls, so all regions are within their parts at every moment: the sum of their estimates is the estimate of
//   the sum.
// - token-bucket, leaky-bucket, gcra: a region admits at most burst_i + t·limit_i/W in any time t. Both terms add up
//   to those of the whole, because limit and burst are each split without a rest. None of them rounds: levels
//   are whole numbers of units times the window, and what gcra cannot say in ms it keeps in 1/limit of one.
// Where windows are cut by the epoch, "the same everywhere" takes clocks that agree; the others need only that
// clocks run at one pace.
import { type AlgorithmId, traitsOf } from '../counting/algorithms/registry.ts';

export interface WeightedRegion {
  readonly name: string;
  /** Of the limit, relative to the shares of the others; 0 for none. */
  readonly share: number;
}

/** What is split, of a check. */
export interface Counting {
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly extra?: number | undefined;
  readonly cost: number;
}

export interface Share {
  readonly limit: number;
  readonly extra: number | undefined;
}

export type Shares = ReadonlyMap<string, Share>;

/**
 * Whole parts that add up to `total`, in proportion to the weights: each next unit goes to the one that is furthest behind
 * (Webster's method), and by position if two are. So a larger total makes no part smaller: while some isolates still go
 * by the old limit and some already by the new one, no more passes than the larger of the two allows. Weights mean the
 * decimal numbers they are written as: 0.1 and 0.3 are as 1 and 3.
 */
export function splitExactly(total: number, weights: readonly number[]): number[] {
  const exact = toWhole(weights);
  const sum = exact.reduce((so, weight) => so + weight, 0n);
  if (sum === 0n) throw new RangeError('no weight is above 0');
  // Nobody is ever further behind than this: the first units need not be given one by one.
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

export const hasBurst = ({ algorithm }: Pick<Counting, 'algorithm'>) => traitsOf(algorithm).extra === 'burst';

/** The most that it can ever hold. Without a limit, a bucket has no pace: it holds nothing that would come back. */
export const capacityOf = ({ algorithm, limit, extra = limit }: Omit<Counting, 'cost'>): number =>
  hasBurst({ algorithm }) && limit > 0 ? extra : limit;

/** Whether a request of that cost can ever pass by this part alone. */
export const isUsable = ({ algorithm, cost }: Counting, part: Share): boolean =>
  capacityOf({ algorithm, limit: part.limit, extra: part.extra }) >= cost;

/** The part of each region; one that is left out has none. Parts add up to the whole, and so do those of a burst. */
export function partsOf(counting: Counting, regions: readonly WeightedRegion[]): Shares {
  const weighted = withShare(regions);
  const parts = splitOver(counting, weighted);
  const usable = weighted.filter((_, i) => isUsable(counting, parts[i] ?? NOTHING));
  if (usable.length === weighted.length) return named(weighted, parts);
  // A burst without a pace, or a pace without a burst, is of no use to anybody: fewer regions have both.
  const fewer = usable.length > 0 ? usable : [heaviest(weighted)];
  return named(fewer, splitOver(counting, fewer));
}

function splitOver(counting: Counting, regions: readonly WeightedRegion[]): Share[] {
  const { limit, extra, cost } = counting;
  const weights = regions.map(({ share }) => share);
  if (extra === undefined || !hasBurst(counting))
    return splitByCost(limit, cost, weights).map((part) => ({ limit: part, extra }));
  const limits = splitExactly(limit, weights);
  return splitByCost(extra, cost, weights).map((part, i) => ({ limit: limits[i] ?? 0, extra: part }));
}

/** In whole requests, so that no part has a rest that fits nowhere; the rest of the whole goes to the heaviest. */
function splitByCost(total: number, cost: number, weights: readonly number[]): number[] {
  const rest = total % cost;
  const most = weights.indexOf(Math.max(...weights));
  return splitExactly((total - rest) / cost, weights).map((part, i) => part * cost + (i === most ? rest : 0));
}

const NOTHING: Share = { limit: 0, extra: 0 };

const heaviest = (regions: readonly WeightedRegion[]): WeightedRegion =>
  regions.reduce((best, one) => (one.share > best.share ? one : best));

const named = (regions: readonly WeightedRegion[], parts: readonly Share[]): Shares =>
  new Map(regions.map(({ name }, i) => [name, parts[i] ?? NOTHING]));

/** If no region has a share (a rule's shares can name regions that are gone), all have the same: it still limits. */
function withShare(regions: readonly WeightedRegion[]): readonly WeightedRegion[] {
  const weighted = regions.filter(({ share }) => share > 0);
  return weighted.length > 0 ? weighted : regions.map(({ name }) => ({ name, share: 1 }));
}

/**
 * The region that counts a subject centrally: weighted rendezvous hashing. Each region draws a number for the
 * subject, and the best one wins; so if a region comes or goes, only the subjects that it wins or had won move.
 */
export function homeOf(subjectKey: string, regions: readonly WeightedRegion[]): string {
  const subject = hash(subjectKey);
  const drawn = withShare(regions).map(({ name, share }) => ({
    name,
    wait: waitFor(hash(name, subject), share),
  }));
  if (drawn.length === 0) throw new RangeError('there are no regions');
  // By name if equal, so that the order of the regions decides nothing.
  return drawn.reduce((best, one) =>
    one.wait < best.wait || (one.wait === best.wait && one.name < best.name) ? one : best,
  ).name;
}

/** Of several that wait for an event at their own rates, each is the first as often as its rate is of the sum. */
const waitFor = (drawn: number, rate: number) => -Math.log((drawn + 0.5) / 2 ** 32) / rate;

/** 32 bits: FNV-1a over the UTF-16 units, then the finalizer of MurmurHash3, without which similar texts stay similar. */
export function hash(text: string, seed = 0x811c9dc5): number {
  let state = seed;
  for (let i = 0; i < text.length; i++) state = Math.imul(state ^ text.charCodeAt(i), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
