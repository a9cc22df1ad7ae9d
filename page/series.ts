// Fills a time series with zeros for steps without a row. Pure.

/** Seconds, then the values of each curve; null where there is none. */
export type Points = readonly (readonly (number | null)[])[];

export interface Series {
  readonly from: string;
  readonly to: string;
  readonly items: readonly { readonly at: string; readonly count: number }[];
}

const MINUTE = 60;

/** Seconds and counts, from the first to the last step. */
export function fillSteps({ from, to, items }: Series, stepSeconds: number): Points {
  const known = new Map(items.map(({ at, count }) => [Date.parse(at) / 1_000, count]));
  const start = Math.floor(Date.parse(from) / 1_000 / stepSeconds) * stepSeconds;
  const end = Date.parse(to) / 1_000;
  const times = Array.from(
    { length: Math.max(0, Math.ceil((end - start) / stepSeconds)) },
    (_, i) => start + i * stepSeconds,
  );
  return [times, times.map((time) => known.get(time) ?? 0)];
}

export const fillMinutes = (series: Series): Points => fillSteps(series, MINUTE);
