// concurrency: at most `limit` units held at once. A lease has an id and expires one window after it was
// taken or last renewed.
import type { Algorithm, Holder } from './algorithm.ts';

export interface Lease {
  readonly id: string;
  readonly units: number;
  readonly expiresAtMs: number;
}

/** First to expire first. */
type State = readonly Lease[];

const sum = (state: State) => state.reduce((total, { units }) => total + units, 0);
const without = (state: State, leaseId: string) => state.filter(({ id }) => id !== leaseId);

export const concurrency: Algorithm<State> & Holder<State> = {
  traits: { holdsLeases: true, mostUnits: 100_000, chargeLastsMs: ({ windowMs }) => windowMs },

  advance(seen = [], nowMs, { limit, leaseId }) {
    const state = seen.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
    return { state, room: limit - sum(without(state, leaseId)), capacity: limit, delayMs: 0 };
  },

  waitMs(state, nowMs, { limit, leaseId }, cost) {
    const others = without(state, leaseId);
    let missing = sum(others) + cost - limit;
    const ending = others.find(({ units }) => {
      missing -= units;
      return missing <= 0;
    });
    return (ending?.expiresAtMs ?? nowMs) - nowMs;
  },

  charge(state, units, _chargedAtMs, nowMs, { windowMs, leaseId }) {
    const others = units === 0 ? state : without(state, leaseId);
    const after = units > 0 ? insert(others, { id: leaseId, units, expiresAtMs: nowMs + windowMs }) : others;
    return { state: after, resetAtMs: after.at(-1)?.expiresAtMs ?? nowMs };
  },

  held: (state, leaseId) => sum(state.filter(({ id }) => id === leaseId)),
};

function insert(state: State, lease: Lease): State {
  const place = state.findLastIndex(({ expiresAtMs }) => expiresAtMs <= lease.expiresAtMs) + 1;
  return [...state.slice(0, place), lease, ...state.slice(place)];
}
