// How one limit is kept over several regions: each has a part of it, and the parts add up to the limit exactly;
// or, where parts would be too small for a single request, one region counts each subject alone.
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
import type { AlgorithmId } from './algorithms/registry.ts';

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

export type Placement =
  /** Each region counts for itself, up to its share. One that is left out has none. */
  | { readonly kind: 'split'; readonly shares: Shares }
  /** Each subject is counted in one region only: `homeOf` says in which. */
  | { readonly kind: 'central' };

/** Their `extra` is a burst. Elsewhere it is a number of buckets, or nothing. */
export const HAVE_BURST: readonly AlgorithmId[] = ['token-bucket', 'leaky-bucket', 'gcra'];

/**
 * Whole parts that add up to `total`, each less than 1 away from its exact quota: by largest remainder, and by
 * position if remainders are equal. Weights mean the decimal numbers they are written as: 0.1 and 0.3 are as 1 and 3.
 * A larger total can make a part smaller by one: that is the price of keeping to the quota.
 */
export function splitExactly(total: number, weights: readonly number[]): number[] {
  const exact = toWhole(weights);
  const sum = exact.reduce((so, weight) => so + weight, 0n);
  if (sum === 0n) throw new RangeError('no weight is above 0');
  const products = exact.map((weight) => BigInt(total) * weight);
  const parts = products.map((product) => Number(product / sum));
  const rests = products.map((product, place) => ({ place, rest: product % sum }));
  rests.sort((a, b) => (a.rest === b.rest ? a.place - b.place : a.rest > b.rest ? -1 : 1));
  const missing = total - parts.reduce((so, part) => so + part, 0);
  const rounded = new Set(rests.slice(0, missing).map(({ place }) => place));
  return parts.map((part, place) => (rounded.has(place) ? part + 1 : part));
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

/** A request must fit into every part, or some region could never admit one: then the limit stays in one piece. */
export function placementOf(counting: Counting, regions: readonly WeightedRegion[]): Placement {
  const shares = sharesOf(counting, regions);
  const parts = [...shares.values()].flatMap(({ limit, extra }) => [limit, burstOf(counting, limit, extra)]);
  const isTooSmall = shares.size > 1 && parts.some((part) => part < counting.cost);
  return isTooSmall ? { kind: 'central' } : { kind: 'split', shares };
}

export const hasBurst = ({ algorithm }: Pick<Counting, 'algorithm'>) => HAVE_BURST.includes(algorithm);
const burstOf = (counting: Counting, limit: number, extra = limit) => (hasBurst(counting) ? extra : limit);

function sharesOf(counting: Counting, regions: readonly WeightedRegion[]): Map<string, Share> {
  const { limit, extra } = counting;
  const weighted = withShare(regions);
  const weights = weighted.map(({ share }) => share);
  const limits = splitExactly(limit, weights);
  const extras = extra !== undefined && hasBurst(counting) ? splitExactly(extra, weights) : undefined;
  const shareAt = (place: number) => ({ limit: limits[place] ?? 0, extra: extras ? extras[place] : extra });
  return new Map(weighted.map(({ name }, place) => [name, shareAt(place)]));
}

/** If no region has a share (a rule's shares can name regions that are gone), all have the same: it still limits. */
function withShare(regions: readonly WeightedRegion[]): readonly WeightedRegion[] {
  const weighted = regions.filter(({ share }) => share > 0);
  return weighted.length > 0 ? weighted : regions.map(({ name }) => ({ name, share: 1 }));
}

/**
 * While a split is being changed: the smaller of the old and the new part of each region, so that neither sum is
 * exceeded while some still go by the old one, or some already by the new one. A region that has none in one of them
 * has none. The new parts must wait until what was admitted by the old ones no longer counts: two windows, or as long
 * as a bucket of the old part takes to fill.
 */
export function transitionalShares(
  counting: Counting & { readonly subjectKey: string },
  before: readonly WeightedRegion[],
  after: readonly WeightedRegion[],
): Shares {
  const [old, next] = [before, after].map((regions) => sharesFor(counting, regions)) as [Shares, Shares];
  const smaller = new Map<string, Share>();
  for (const [name, { limit, extra }] of old) {
    const other = next.get(name);
    if (!other) continue;
    const share = {
      limit: Math.min(limit, other.limit),
      extra: extra === undefined ? undefined : Math.min(extra, other.extra ?? extra),
    };
    if (share.limit > 0 && share.extra !== 0) smaller.set(name, share);
  }
  return smaller;
}

/** The shares of one subject: if it is counted centrally, its home has all. */
function sharesFor(
  { subjectKey, ...counting }: Counting & { readonly subjectKey: string },
  regions: readonly WeightedRegion[],
): Shares {
  const placement = placementOf(counting, regions);
  if (placement.kind === 'split') return placement.shares;
  return new Map([[homeOf(subjectKey, regions), { limit: counting.limit, extra: counting.extra }]]);
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
function hash(text: string, seed = 0x811c9dc5): number {
  let state = seed;
  for (let i = 0; i < text.length; i++) state = Math.imul(state ^ text.charCodeAt(i), 0x01000193);
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}
