// Windows of a calendar: a day, a week or a month of some time zone. Their lengths differ, so a check names the borders
// around its moment. The clock of the counters then decides which of these windows applies.

/** Epoch ms of four borders in a row. The moment of the check is between the second and the third. */
export type Borders = readonly [beforeMs: number, startMs: number, endMs: number, afterMs: number];

export interface Window {
  readonly startMs: number;
  readonly endMs: number;
  /** The end of the next window. */
  readonly nextEndMs: number;
}

interface Windowed {
  readonly windowMs: number;
  /** Undefined: windows are aligned to the epoch. */
  readonly borders?: Borders | undefined;
}

/** The window of that moment. Beyond the last border, windows are as long as the last one. */
export function windowAt(nowMs: number, { windowMs, borders }: Windowed): Window {
  if (!borders) return windowOf(nowMs - (nowMs % windowMs), windowMs, windowMs);
  const [beforeMs, startMs, endMs, afterMs] = borders;
  if (nowMs < startMs) return windowOf(beforeMs, startMs - beforeMs, endMs - startMs);
  if (nowMs < endMs) return windowOf(startMs, endMs - startMs, afterMs - endMs);
  const lastMs = afterMs - endMs;
  return windowOf(nowMs - ((nowMs - endMs) % lastMs), lastMs, lastMs);
}

const windowOf = (startMs: number, lengthMs: number, nextMs: number): Window => ({
  startMs,
  endMs: startMs + lengthMs,
  nextEndMs: startMs + lengthMs + nextMs,
});

/** The length of the longest of these windows. */
export const longestMs = ({ windowMs, borders }: Windowed): number =>
  borders
    ? Math.max(...borders.slice(1).map((borderMs, i) => borderMs - (borders[i] ?? borderMs)))
    : windowMs;
