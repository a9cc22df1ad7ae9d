// fixed-window: at most `limit` units in each window; windows are aligned to the epoch, or those of a calendar.
import { longestMs, windowAt } from '../calendar.ts';
import type { Algorithm } from './algorithm.ts';

export interface State {
  readonly endMs: number;
  readonly used: number;
}

export const fixedWindow: Algorithm<State> = {
  traits: {
    hasCalendar: true,
    countsUnits: true,
    chargeLastsMs: longestMs,
    // Units count in the window that they were charged in.
    leaseCellMs: ({ windowMs }) => windowMs,
  },

  advance(seen, nowMs, params) {
    const { startMs, endMs, nextEndMs } = windowAt(nowMs, params);
    // The window after now's can only come from a clock that went back: it stays the current one. One further
    // ahead counts as none, so that nobody is locked out for longer than a window.
    // Borders that were changed can leave a window that ends within the one of now: it is over at its own end.
    const isOver = !seen || seen.endMs <= startMs || seen.endMs <= nowMs;
    const isCurrent = !isOver && seen.used > 0 && seen.endMs <= nextEndMs;
    const state = isCurrent ? seen : { endMs, used: 0 };
    return { state, room: params.limit - state.used, capacity: params.limit, delayMs: 0 };
  },

  waitMs: ({ endMs }, nowMs) => endMs - nowMs,

  charge({ endMs, used }, units, chargedAtMs, nowMs, params) {
    // What comes afterwards (a refund, a settlement) moves only the window of the charge.
    const now = windowAt(nowMs, params);
    const startMs = endMs > now.endMs ? now.endMs : now.startMs;
    const counts = chargedAtMs === undefined || (chargedAtMs >= startMs && chargedAtMs < endMs);
    const after = counts ? Math.max(0, used + units) : used;
    return { state: { endMs, used: after }, resetAtMs: after > 0 ? endMs : nowMs };
  },
};
