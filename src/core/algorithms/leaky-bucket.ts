// leaky-bucket: requests are poured into a bucket of size `burst` that leaks at an even pace. The content is
// in units times the window: then a millisecond leaks exactly `limit`, and nothing is ever rounded.
import { type Algorithm, countsStill, notBefore, stillTaken } from './algorithm.ts';

interface State {
  readonly content: number;
  readonly atMs: number;
  /** By which it drains until now. */
  readonly limit: number;
}

export const leakyBucket: Algorithm<State> = {
  advance(seen, nowMs, { limit, windowMs, extra: size = limit }) {
    const content = seen ? Math.max(0, seen.content - Math.max(0, nowMs - seen.atMs) * seen.limit) : 0;
    const state = { content, atMs: notBefore(seen?.atMs ?? nowMs, nowMs, windowMs), limit };
    const room = Math.floor((size * windowMs - content) / windowMs);
    return { state, room, capacity: size, delayMs: state.atMs - nowMs + Math.ceil(content / limit) };
  },

  waitMs: ({ content, atMs }, nowMs, { limit, windowMs, extra: size = limit }, cost) =>
    atMs - nowMs + Math.ceil((content + cost * windowMs - size * windowMs) / limit),

  charge({ content, atMs }, units, chargedAtMs, nowMs, { limit, windowMs }) {
    const after = countsStill(units, chargedAtMs, nowMs, windowMs)
      ? Math.max(0, content + units * windowMs)
      : content;
    return { state: { content: after, atMs, limit }, resetAtMs: atMs + Math.ceil(after / limit) };
  },

  relieve({ content, atMs, limit }, relief, nowMs, { windowMs }) {
    return { content: Math.max(0, content - stillTaken(relief, nowMs, windowMs)), atMs, limit };
  },
};
