// token-bucket: holds up to `burst` tokens, refilled continuously. What is missing from a full bucket is kept, in tokens
// times the window: then a millisecond refills exactly `limit`, and nothing is ever rounded. If limit or burst change,
// what was taken is still missing.
import { type Algorithm, countsStill, notBefore, stillTaken } from './algorithm.ts';

interface State {
  readonly missing: number;
  readonly atMs: number;
  /** By which it drains until now. */
  readonly limit: number;
}

export const tokenBucket: Algorithm<State> = {
  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const missing = seen ? Math.max(0, seen.missing - Math.max(0, nowMs - seen.atMs) * seen.limit) : 0;
    const state = { missing, atMs: notBefore(seen?.atMs ?? nowMs, nowMs, windowMs), limit };
    const room = Math.floor((burst * windowMs - missing) / windowMs);
    return { state, room, capacity: burst, delayMs: 0 };
  },

  waitMs: ({ missing, atMs }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    atMs - nowMs + Math.ceil((missing + cost * windowMs - burst * windowMs) / limit),

  charge({ missing, atMs }, units, chargedAtMs, nowMs, { limit, windowMs }) {
    const after = countsStill(units, chargedAtMs, nowMs, windowMs)
      ? Math.max(0, missing + units * windowMs)
      : missing;
    return { state: { missing: after, atMs, limit }, resetAtMs: atMs + Math.ceil(after / limit) };
  },

  relieve({ missing, atMs, limit }, relief, nowMs, { windowMs }) {
    return { missing: Math.max(0, missing - stillTaken(relief, nowMs, windowMs)), atMs, limit };
  },
};
