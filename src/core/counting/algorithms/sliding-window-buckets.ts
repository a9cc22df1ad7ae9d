// sliding-window-buckets: cuts the window into buckets. The bucket at the far edge counts in full, so that no true
// window ever holds more than the limit.
import type { Algorithm, Params } from './algorithm.ts';

const DEFAULT_BUCKETS = 10;

export interface WindowBucketsState {
  /** Number of the current bucket. */
  readonly number: number;
  /** Units in the current bucket, the one before, … back to the one at the edge. */
  readonly used: readonly number[];
}

const bucketMs = ({ windowMs, extra = DEFAULT_BUCKETS }: Pick<Params, 'windowMs' | 'extra'>) =>
  Math.ceil(windowMs / extra);
/** The current bucket, all that the window can touch before it, and the one at the edge. */
const keptBuckets = (params: Pick<Params, 'windowMs' | 'extra'>) =>
  Math.ceil(params.windowMs / bucketMs(params)) + 1;
const sum = (used: readonly number[]) => used.reduce((total, units) => total + units, 0);
const leavesAtMs = (state: WindowBucketsState, place: number, params: Params) =>
  (state.number - place + keptBuckets(params)) * bucketMs(params);

export const slidingWindowBuckets: Algorithm<WindowBucketsState> = {
  traits: {
    letter: 'b',
    extra: 'buckets',
    // This is longer than a window and a bucket if the window is not a multiple of the bucket.
    chargeLastsMs: (counting) => keptBuckets(counting) * bucketMs(counting),
    // All units of a bucket count until a window after its end, whenever they were used in it.
    leaseCellMs: bucketMs,
  },

  advance(seen, nowMs, params) {
    const kept = keptBuckets(params);
    const number = Math.floor(nowMs / bucketMs(params));
    // A bucket ahead of now means that the clock went back. The bucket stays the current one, unless the clock went
    // back by more than the window.
    const isKnown = seen && seen.used.length === kept && seen.number - number <= kept;
    const known = isKnown ? seen : { number, used: Array<number>(kept).fill(0) };
    const steps = Math.min(kept, Math.max(0, number - known.number));
    const used = [...Array<number>(steps).fill(0), ...known.used.slice(0, kept - steps)];
    const state = { number: Math.max(number, known.number), used };
    return { state, room: params.limit - sum(used), capacity: params.limit, delayMs: 0 };
  },

  waitMs(state, nowMs, params, cost) {
    let missing = sum(state.used) + cost - params.limit;
    let place = state.used.length;
    do {
      place -= 1;
      missing -= state.used[place] ?? 0;
    } while (missing > 0);
    return leavesAtMs(state, place, params) - nowMs;
  },

  charge(state, units, nowMs, params, amendment) {
    // A refund or a settlement changes only the bucket of the charge, if it is still kept.
    const place = amendment ? state.number - Math.floor(amendment.chargedAtMs / bucketMs(params)) : 0;
    const used = state.used.map((seen, i) => (i === place ? Math.max(0, seen + units) : seen));
    const newest = used.findIndex((seen) => seen > 0);
    const after = { number: state.number, used };
    return { state: after, resetAtMs: newest < 0 ? nowMs : leavesAtMs(after, newest, params) };
  },
};
