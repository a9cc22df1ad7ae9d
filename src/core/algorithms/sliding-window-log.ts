// sliding-window-log: every charge is remembered for one window, so the sum over any window is exact.
// Charges of one millisecond share an entry.
import type { Algorithm } from './algorithm.ts';

interface Entry {
  readonly atMs: number;
  readonly units: number;
}

/** Oldest first. */
type State = readonly Entry[];

const sum = (state: State) => state.reduce((total, { units }) => total + units, 0);

export const slidingWindowLog: Algorithm<State> = {
  advance(seen = [], nowMs, { limit, windowMs }) {
    // A clock that went back stands still at the last entry; by more than a window, it starts from nothing.
    const lastMs = seen.at(-1)?.atMs ?? nowMs;
    const latestMs = Math.max(nowMs, lastMs);
    const state = lastMs - nowMs > windowMs ? [] : seen.filter(({ atMs }) => atMs > latestMs - windowMs);
    return { state, room: limit - sum(state), capacity: limit, delayMs: 0 };
  },

  waitMs(state, nowMs, { limit, windowMs }, cost) {
    let missing = sum(state) + cost - limit;
    const leaving = state.find(({ units }) => {
      missing -= units;
      return missing <= 0;
    });
    return (leaving?.atMs ?? nowMs) + windowMs - nowMs;
  },

  charge(state, units, atMs, nowMs, { windowMs }) {
    const after = units > 0 ? append(state, units, nowMs) : units < 0 ? remove(state, -units, atMs) : state;
    const last = after.at(-1);
    return { state: after, resetAtMs: last ? last.atMs + windowMs : nowMs };
  },
};

function append(state: State, units: number, nowMs: number): State {
  const last = state.at(-1);
  if (!last || last.atMs < nowMs) return [...state, { atMs: nowMs, units }];
  return [...state.slice(0, -1), { atMs: last.atMs, units: last.units + units }];
}

function remove(state: State, units: number, atMs: number): State {
  return state
    .map((entry) => (entry.atMs === atMs ? { atMs, units: entry.units - units } : entry))
    .filter((entry) => entry.units > 0);
}
