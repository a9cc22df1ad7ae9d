// token-bucket: holds up to `burst` tokens, refilled continuously. What is missing from a full bucket is kept, in tokens
// times the window: then a millisecond refills exactly `limit`, and nothing is ever rounded. If limit or burst change,
// what was taken is still missing.
import { type Algorithm, ceilDivide, countsStill, notBefore } from './algorithm.ts';

export interface TokenBucketState {
  readonly missing: number;
  readonly atMs: number;
  /** By which it is refilled from then on. */
  readonly limit: number;
}

export const tokenBucket: Algorithm<TokenBucketState> = {
  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const missing = seen ? Math.max(0, seen.missing - Math.max(0, nowMs - seen.atMs) * seen.limit) : 0;
    const state = { missing, atMs: notBefore(seen?.atMs ?? nowMs, nowMs, windowMs), limit };
    const room = burst - ceilDivide(missing, windowMs);
    return { state, room, capacity: burst, delayMs: 0 };
  },

  waitMs: ({ missing, atMs }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    atMs - nowMs + ceilDivide(missing - (burst - cost) * windowMs, limit),

  charge({ missing, atMs }, units, chargedAtMs, nowMs, { limit, windowMs }) {
    const after = countsStill(units, chargedAtMs, nowMs, windowMs)
      ? Math.max(0, missing + units * windowMs)
      : missing;
    return { state: { missing: after, atMs, limit }, resetAtMs: atMs + ceilDivide(after, limit) };
  },
};
