// concurrency: at most `limit` units are held at once. A seat has an id and expires one window after it was taken or
// last renewed.
import type { Algorithm } from './algorithm.ts';

export interface Seat {
  readonly id: string;
  readonly units: number;
  readonly expiresAtMs: number;
}

/** In the order of their expiry. */
type State = readonly Seat[];

const sum = (state: State) => state.reduce((total, { units }) => total + units, 0);
const without = (state: State, seatId: string) => state.filter(({ id }) => id !== seatId);

export const concurrency: Algorithm<State> = {
  traits: { letter: 'h', holdsSeats: true, mostUnits: 100_000, chargeLastsMs: ({ windowMs }) => windowMs },

  advance(seen = [], nowMs, { limit, seatId }) {
    const state = seen.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
    return { state, room: limit - sum(without(state, seatId)), capacity: limit, delayMs: 0 };
  },

  waitMs(state, nowMs, { limit, seatId }, cost) {
    const others = without(state, seatId);
    let missing = sum(others) + cost - limit;
    const ending = others.find(({ units }) => {
      missing -= units;
      return missing <= 0;
    });
    return (ending?.expiresAtMs ?? nowMs) - nowMs;
  },

  charge(state, units, nowMs, { windowMs, seatId }) {
    const others = units === 0 ? state : without(state, seatId);
    const after = units > 0 ? insert(others, { id: seatId, units, expiresAtMs: nowMs + windowMs }) : others;
    return { state: after, resetAtMs: after.at(-1)?.expiresAtMs ?? nowMs };
  },

  held: (state, seatId) => sum(state.filter(({ id }) => id === seatId)),
};

function insert(state: State, seat: Seat): State {
  const place = state.findLastIndex(({ expiresAtMs }) => expiresAtMs <= seat.expiresAtMs) + 1;
  return [...state.slice(0, place), seat, ...state.slice(place)];
}
