// gcra: requests have an even spacing; each moves the theoretical arrival time (TAT) of the next one further,
// and passes if that stays within `burst` spacings of now. TAT is kept exactly: whole ms, and a rest in
// 1/limit of a ms.
import { type Algorithm, countsStill } from './algorithm.ts';

interface State {
  readonly tatMs: number;
  readonly rest: number;
}

export const gcra: Algorithm<State> = {
  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const full = burst * windowMs;
    const state = withinReach(notBefore(seen, nowMs), nowMs, limit, full);
    const ahead = (state.tatMs - nowMs) * limit + state.rest;
    return { state, room: Math.floor((full - ahead) / windowMs), capacity: burst, delayMs: 0 };
  },

  waitMs: ({ tatMs, rest }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    Math.ceil(((tatMs - nowMs) * limit + rest + cost * windowMs - burst * windowMs) / limit),

  charge(state, units, chargedAtMs, nowMs, { limit, windowMs }) {
    const counts = countsStill(units, chargedAtMs, nowMs, windowMs);
    const after = counts ? notBefore(move(state, units * windowMs, limit), nowMs) : state;
    return { state: after, resetAtMs: after.tatMs + (after.rest > 0 ? 1 : 0) };
  },
};

const notBefore = (state: State | undefined, nowMs: number): State =>
  state && state.tatMs >= nowMs ? state : { tatMs: nowMs, rest: 0 };

/** No charge puts TAT that far ahead: the clock went back. It starts again with nothing left. */
function withinReach(state: State, nowMs: number, limit: number, full: number): State {
  const ahead = (state.tatMs - nowMs) * limit + state.rest;
  return ahead > 2 * full ? { tatMs: nowMs + Math.floor(full / limit), rest: full % limit } : state;
}

function move({ tatMs, rest }: State, by: number, limit: number): State {
  const total = rest + by;
  const wholeMs = Math.floor(total / limit);
  return { tatMs: tatMs + wholeMs, rest: total - wholeMs * limit };
}
