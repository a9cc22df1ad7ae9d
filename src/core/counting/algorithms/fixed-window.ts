// fixed-window: at most `limit` units in each window; windows are aligned to the epoch, or those of a calendar.
import { longestMs, windowAt } from '../calendar.ts';
import type { Algorithm } from './algorithm.ts';

export interface FixedWindowState {
  readonly endMs: number;
  readonly used: number;
}

export const fixedWindow: Algorithm<FixedWindowState> = {
  traits: {
    letter: 'f',
    hasCalendar: true,
    countsUnits: true,
    chargeLastsMs: longestMs,
    // Units count in the window that they were charged in.
    leaseCellMs: ({ windowMs }) => windowMs,
  },

  parse: ([endMs = 0, used = 0]) => ({ endMs, used }),

  advance(seen, nowMs, params) {
    const { startMs, endMs, nextEndMs } = windowAt(nowMs, params);
    // A stored window ahead of the current one means that the clock went back. If it is the next window, it stays in
    // force. If it is further ahead, it is ignored, so that nobody is locked out for longer than a window.
    // After a change of borders, a stored window may end within the current one. It ends at its own end.
    const isOver = !seen || seen.endMs <= startMs || seen.endMs <= nowMs;
    const isCurrent = !isOver && seen.used > 0 && seen.endMs <= nextEndMs;
    const state = isCurrent ? seen : { endMs, used: 0 };
    return { state, room: params.limit - state.used, capacity: params.limit, delayMs: 0 };
  },

  waitMs: ({ endMs }, nowMs) => endMs - nowMs,

  charge({ endMs, used }, units, nowMs, params, amendment) {
    // A refund or a settlement changes only the window of the charge.
    const now = windowAt(nowMs, params);
    const startMs = endMs > now.endMs ? now.endMs : now.startMs;
    const { chargedAtMs = startMs } = amendment ?? {};
    const counts = chargedAtMs >= startMs && chargedAtMs < endMs;
    const after = counts ? Math.max(0, used + units) : used;
    return { state: { endMs, used: after }, resetAtMs: after > 0 ? endMs : nowMs };
  },
};
