// sliding-window-log: remembers every charge for one window, so the sum over any window is exact. Charges of one
// millisecond share an entry.
import type { Algorithm } from './algorithm.ts';

export interface Entry {
  readonly atMs: number;
  readonly units: number;
}

/** Oldest first. */
type State = readonly Entry[];

const sum = (state: State) => state.reduce((total, { units }) => total + units, 0);

export const slidingWindowLog: Algorithm<State> = {
  traits: {
    letter: 'l',
    mostUnits: 100_000,
    // An isolate may have many subjects, and each of them would need a log of every request.
    localTwin: {
      strict: { algorithm: 'sliding-window-buckets', extra: 10 },
      lenient: { algorithm: 'fixed-window', extra: undefined },
    },
    chargeLastsMs: ({ windowMs }) => windowMs,
  },

  advance(seen = [], nowMs, { limit, windowMs }) {
    // If the clock went back, time stands still at the last entry. If by more than a window, counting starts anew.
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

  charge(state, units, nowMs, { windowMs }, amendment) {
    const latestMs = Math.max(nowMs, state.at(-1)?.atMs ?? nowMs);
    const atMs = amendment?.chargedAtMs ?? latestMs;
    // Changes a charge only if its moment is still inside the window.
    const counts = atMs > latestMs - windowMs && atMs <= latestMs;
    const after = counts && units !== 0 ? changeEntry(state, units, atMs) : state;
    const last = after.at(-1);
    return { state: after, resetAtMs: last ? last.atMs + windowMs : nowMs };
  },
};

/** Changes the charge of one moment. Its entry exists only while it has units. */
function changeEntry(state: State, units: number, atMs: number): State {
  const earlier = state.filter((entry) => entry.atMs < atMs);
  const later = state.filter((entry) => entry.atMs > atMs);
  const after = sum(state) - sum(earlier) - sum(later) + units;
  return after > 0 ? [...earlier, { atMs, units: after }, ...later] : [...earlier, ...later];
}
