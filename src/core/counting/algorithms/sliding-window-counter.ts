// sliding-window-counter: estimates the last window from two aligned windows. The previous one counts in proportion to
// how much of it is still inside. All terms are multiplied by the window, so they stay whole.
import { type Algorithm, ceilDivide, floorDivide } from './algorithm.ts';

export interface WindowCounterState {
  readonly startMs: number;
  readonly current: number;
  readonly previous: number;
}

export const slidingWindowCounter: Algorithm<WindowCounterState> = {
  traits: {
    letter: 'c',
    roundsEachPart: true,
    chargeLastsMs: ({ windowMs }) => 2 * windowMs,
    // The algorithm does not know when in its window a unit was used, so any moment of the window will do.
    leaseCellMs: ({ windowMs }) => windowMs,
  },

  parse([resetAtMs = 0, previous = 0, current = 0], { windowMs }) {
    return { startMs: resetAtMs - (current > 0 ? 2 : 1) * windowMs, current, previous };
  },

  advance(seen, nowMs, { limit, windowMs }) {
    const state = roll(seen, nowMs - (nowMs % windowMs), windowMs);
    // If the clock went back, time stands still at the start of the window.
    const weighted = state.previous * (windowMs - Math.max(0, nowMs - state.startMs));
    const room = limit - state.current - ceilDivide(weighted, windowMs);
    return { state, room, capacity: limit, delayMs: 0 };
  },

  // The cost fits in this window if the window's own units leave room, else in the next one.
  waitMs({ startMs, current, previous }, nowMs, { limit, windowMs }, cost) {
    const free = limit - current - cost;
    if (free >= 0) return startMs + windowMs - floorDivide(free * windowMs, previous) - nowMs;
    return startMs + 2 * windowMs - floorDivide((limit - cost) * windowMs, current) - nowMs;
  },

  charge(state, units, nowMs, { limit, windowMs }, amendment) {
    const { startMs } = state;
    const { chargedAtMs = startMs } = amendment ?? {};
    let { current, previous } = state;
    // A refund or a settlement changes only the window of the charge. Units in the previous window weigh less than
    // their number, so the weight alone would not bound a settlement.
    const isIn = (fromMs: number) => chargedAtMs >= fromMs && chargedAtMs < fromMs + windowMs;
    if (isIn(startMs)) current = Math.max(0, current + units);
    else if (isIn(startMs - windowMs)) {
      const most = units > 0 ? Math.max(previous, 2 * limit) : previous;
      previous = Math.max(0, Math.min(previous + units, most));
    }
    const resetAtMs = current > 0 ? startMs + 2 * windowMs : previous > 0 ? startMs + windowMs : nowMs;
    return { state: { startMs, current, previous }, resetAtMs };
  },
};

function roll(seen: WindowCounterState | undefined, startMs: number, windowMs: number): WindowCounterState {
  const isEmpty = !seen || seen.current + seen.previous === 0;
  if (isEmpty || Math.abs(seen.startMs - startMs) > windowMs) return { startMs, current: 0, previous: 0 };
  if (seen.startMs < startMs) return { startMs, current: 0, previous: seen.current };
  return seen;
}
