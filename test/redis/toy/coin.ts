// coin: at most `limit` units in each window, which it knows by its number.
import { type Algorithm, floorDivide } from '../../../src/core/counting/algorithms/algorithm.ts';

interface State {
  readonly number: number;
  readonly used: number;
}

export const coin: Algorithm<State> = {
  traits: { letter: 'o', chargeLastsMs: ({ windowMs }) => windowMs },

  parse: ([, number = 0, used = 0]) => ({ number, used }),

  advance(seen, nowMs, { limit, windowMs }) {
    const number = floorDivide(nowMs, windowMs);
    const isCurrent = seen && seen.used > 0 && seen.number >= number && seen.number <= number + 1;
    const state = isCurrent ? seen : { number, used: 0 };
    return { state, room: limit - state.used, capacity: limit, delayMs: 0 };
  },

  waitMs: ({ number }, nowMs, { windowMs }) => (number + 1) * windowMs - nowMs,

  charge({ number, used }, units, nowMs, { windowMs }, amendment) {
    const counts = !amendment || floorDivide(amendment.chargedAtMs, windowMs) === number;
    const after = counts ? Math.max(0, used + units) : used;
    return { state: { number, used: after }, resetAtMs: after > 0 ? (number + 1) * windowMs : nowMs };
  },
};
