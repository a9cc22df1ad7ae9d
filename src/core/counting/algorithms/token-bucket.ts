// token-bucket: holds up to `burst` tokens, refilled continuously. What is missing from a full bucket is kept, in tokens
// times the window: then a millisecond refills exactly `limit`, and nothing is ever rounded. If limit or burst change,
// what was taken is still missing.
import { type Algorithm, ceilDivide, notBefore } from './algorithm.ts';

export interface TokenBucketState {
  readonly missing: number;
  readonly atMs: number;
  /** By which it is refilled from then on. */
  readonly limit: number;
  /** The larger one of that and of the one before. */
  readonly fastest?: number | undefined;
}

export const tokenBucket: Algorithm<TokenBucketState> = {
  traits: {
    extra: 'burst',
    // Until a bucket that was empty is full again.
    chargeLastsMs: ({ limit, windowMs, extra: burst = limit }) => Math.ceil((windowMs * burst) / limit),
  },

  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const missing = seen ? Math.max(0, seen.missing - Math.max(0, nowMs - seen.atMs) * seen.limit) : 0;
    const fastest = Math.max(limit, seen?.limit ?? 0);
    const state = { missing, atMs: notBefore(seen?.atMs ?? nowMs, nowMs, windowMs), limit, fastest };
    const room = burst - ceilDivide(missing, windowMs);
    return { state, room, capacity: burst, delayMs: 0 };
  },

  waitMs: ({ missing, atMs }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    atMs - nowMs + ceilDivide(missing - (burst - cost) * windowMs, limit),

  charge({ missing, atMs, fastest = 0 }, units, chargedAtMs, nowMs, { limit, windowMs, kept }) {
    const isRefund = units < 0 && chargedAtMs !== undefined;
    // What is given back is what is certain to be still missing of that charge: the rest may have been refilled, and
    // what is missing now be another's. It can be given back for one window.
    const agoMs = isRefund ? Math.max(0, nowMs - chargedAtMs) : 0;
    const certain = agoMs < windowMs ? Math.max(0, (kept - units) * windowMs - agoMs * fastest) : 0;
    const change = isRefund ? -Math.min(-units * windowMs, certain) : units * windowMs;
    const after = Math.max(0, missing + change);
    return { state: { missing: after, atMs, limit }, resetAtMs: atMs + ceilDivide(after, limit) };
  },
};
