// token-bucket: holds up to `burst` tokens, refilled continuously. The state is what the bucket lacks until it is
// full, in tokens times the window, so a millisecond refills exactly `limit`, and nothing is ever rounded. If limit or
// burst change, tokens that were taken are still missing, and the next charge sets the new rate. Until then the old one
// refills them, and waits count with it.
import { type Algorithm, ceilDivide } from './algorithm.ts';

export interface TokenBucketState {
  readonly missing: number;
  readonly atMs: number;
  /** The limit of the last charge, which refills the bucket. */
  readonly limit: number;
}

export const tokenBucket: Algorithm<TokenBucketState> = {
  traits: {
    letter: 't',
    extra: 'burst',
    // The time until an empty bucket is full again.
    chargeLastsMs: ({ limit, windowMs, extra: burst = limit }) => Math.ceil((windowMs * burst) / limit),
  },

  // The script stores when the bucket is full, because that is when it may forget the counter.
  parse: ([fullAtMs = 0, missing = 0, limit = 1]) => ({
    missing,
    atMs: fullAtMs - ceilDivide(missing, limit),
    limit,
  }),

  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    // If the clock went back, time stands still until the clock has caught up. By more than a window, counting starts
    // anew, so that nobody is locked out for longer than a window.
    const isKnown = seen && seen.atMs - nowMs <= windowMs;
    const { missing: before, atMs, limit: rate } = isKnown ? seen : { missing: 0, atMs: nowMs, limit };
    const missing = Math.max(0, before - Math.max(0, nowMs - atMs) * rate);
    const state = { missing, atMs: Math.max(atMs, nowMs), limit: rate };
    const room = burst - ceilDivide(missing, windowMs);
    return { state, room, capacity: burst, delayMs: 0 };
  },

  waitMs: ({ missing, atMs, limit: rate }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    atMs - nowMs + ceilDivide(missing - (burst - cost) * windowMs, rate),

  charge({ missing, atMs, limit: before }, units, nowMs, { limit, windowMs }, amendment) {
    const refund = units < 0 ? amendment : undefined;
    // A refund gives back only tokens of that charge that are certainly still missing. The others may have been
    // refilled, and the tokens missing now may belong to another charge. A refund works for one window.
    const agoMs = refund ? Math.max(0, nowMs - refund.chargedAtMs) : 0;
    const keptUnits = refund?.keptUnits ?? 0;
    const fastest = Math.max(limit, before);
    const certain = agoMs < windowMs ? Math.max(0, (keptUnits - units) * windowMs - agoMs * fastest) : 0;
    const change = refund ? -Math.min(-units * windowMs, certain) : units * windowMs;
    const after = Math.max(0, missing + change);
    const rate = units > 0 ? limit : before;
    return { state: { missing: after, atMs, limit: rate }, resetAtMs: atMs + ceilDivide(after, rate) };
  },
};
