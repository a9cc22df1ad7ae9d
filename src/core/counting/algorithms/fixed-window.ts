// fixed-window: at most `limit` units in each window; windows are aligned to the epoch.
import type { Algorithm } from './algorithm.ts';

export interface State {
  readonly startMs: number;
  readonly used: number;
}

export const fixedWindow: Algorithm<State> = {
  traits: {
    chargeLastsMs: ({ windowMs }) => windowMs,
    // Units count in the window that they were charged in.
    leaseCellMs: ({ windowMs }) => windowMs,
  },

  advance(seen, nowMs, { limit, windowMs }) {
    const startMs = nowMs - (nowMs % windowMs);
    // The window after now's can only come from a clock that went back: it stays the current one. One further
    // ahead counts as none, so that nobody is locked out for longer than a window.
    const isCurrent = seen && seen.used > 0 && seen.startMs >= startMs && seen.startMs <= startMs + windowMs;
    const state = isCurrent ? seen : { startMs, used: 0 };
    return { state, room: limit - state.used, capacity: limit, delayMs: 0 };
  },

  waitMs: ({ startMs }, nowMs, { windowMs }) => startMs + windowMs - nowMs,

  charge({ startMs, used }, units, chargedAtMs = startMs, nowMs, { windowMs }) {
    // What comes afterwards (a refund, a settlement) moves only the window of the charge.
    const counts = chargedAtMs >= startMs && chargedAtMs < startMs + windowMs;
    const after = counts ? Math.max(0, used + units) : used;
    return { state: { startMs, used: after }, resetAtMs: after > 0 ? startMs + windowMs : nowMs };
  },
};
