// gcra: requests have an even spacing; each moves the theoretical arrival time (TAT) of the next one further,
// and passes if that stays within `burst` spacings of now. TAT is kept exactly: whole ms, and a rest in
// 1/limit of a ms. If the limit has changed since, TAT is brought to where as many units are ahead of now as before.
import { type Algorithm, countsStill, stillTaken } from './algorithm.ts';

interface State {
  readonly tatMs: number;
  readonly rest: number;
  readonly limit: number;
}

export const gcra: Algorithm<State> = {
  advance(seen, nowMs, { limit, windowMs, extra: burst = limit }) {
    const full = burst * windowMs;
    const state = withinReach(inTermsOf(limit, notBefore(seen, nowMs, limit), nowMs), nowMs, full);
    return {
      state,
      room: Math.floor((full - aheadOf(state, nowMs)) / windowMs),
      capacity: burst,
      delayMs: 0,
    };
  },

  waitMs: ({ tatMs, rest }, nowMs, { limit, windowMs, extra: burst = limit }, cost) =>
    Math.ceil(((tatMs - nowMs) * limit + rest + cost * windowMs - burst * windowMs) / limit),

  charge(state, units, chargedAtMs, nowMs, { limit, windowMs }) {
    const counts = countsStill(units, chargedAtMs, nowMs, windowMs);
    const after = counts ? notBefore(move(state, units * windowMs), nowMs, limit) : state;
    return { state: after, resetAtMs: after.tatMs + (after.rest > 0 ? 1 : 0) };
  },

  relieve: (state, relief, nowMs, { limit, windowMs }) =>
    notBefore(move(state, -stillTaken(relief, nowMs, windowMs)), nowMs, limit),
};

const notBefore = (state: State | undefined, nowMs: number, limit: number): State =>
  state && state.tatMs >= nowMs ? state : { tatMs: nowMs, rest: 0, limit };

const aheadOf = ({ tatMs, rest, limit }: State, nowMs: number) => (tatMs - nowMs) * limit + rest;

const ahead = (units: number, nowMs: number, limit: number): State => ({
  tatMs: nowMs + Math.floor(units / limit),
  rest: units % limit,
  limit,
});

const inTermsOf = (limit: number, state: State, nowMs: number): State =>
  state.limit === limit ? state : ahead(aheadOf(state, nowMs), nowMs, limit);

/** No charge puts TAT that far ahead: the clock went back. It starts again with nothing left. */
const withinReach = (state: State, nowMs: number, full: number): State =>
  aheadOf(state, nowMs) > 2 * full ? ahead(full, nowMs, state.limit) : state;

function move({ tatMs, rest, limit }: State, by: number): State {
  const total = rest + by;
  const wholeMs = Math.floor(total / limit);
  return { tatMs: tatMs + wholeMs, rest: total - wholeMs * limit, limit };
}
