// token-bucket: holds up to `burst` tokens, refilled continuously. The level is in tokens times the window:
// then a millisecond refills exactly `limit`, and nothing is ever rounded.
import { type Algorithm, countsStill, notBefore } from './algorithm.ts';

interface State {
  readonly level: number;
  readonly atMs: number;
}

export const tokenBucket: Algorithm<State> = {
  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const full = burst * windowMs;
    const refilled = seen ? seen.level + Math.max(0, nowMs - seen.atMs) * limit : full;
    const state = { level: Math.min(full, refilled), atMs: notBefore(seen?.atMs ?? nowMs, nowMs, windowMs) };
    return { state, room: Math.floor(state.level / windowMs), capacity: burst, delayMs: 0 };
  },

  waitMs: ({ level, atMs }, nowMs, { limit, windowMs }, cost) =>
    atMs - nowMs + Math.ceil((cost * windowMs - level) / limit),

  charge({ level, atMs }, units, chargedAtMs, nowMs, { limit, windowMs, extra: burst = limit }) {
    const full = burst * windowMs;
    const after = countsStill(units, chargedAtMs, nowMs, windowMs)
      ? Math.min(full, level - units * windowMs)
      : level;
    return { state: { level: after, atMs }, resetAtMs: atMs + Math.ceil((full - after) / limit) };
  },
};
