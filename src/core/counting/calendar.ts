// Windows of a calendar: a day, a week or a month of some time zone. Their lengths differ, so a check names the borders
// around its moment. The clock of the counters then decides which of these windows applies.

import type { Rule } from '../matching/rule.ts';

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

// Calendar windows on the request path. The publisher works out their borders, so that all isolates use the same ones.
// An isolate only looks up the borders around now.

export const CALENDAR_WINDOWS = ['day', 'week', 'month'] as const;
export type CalendarWindow = (typeof CALENDAR_WINDOWS)[number];

/** Approximate lengths. A month has its longest length, because charges may count that long. */
export const CALENDAR_SECONDS: Readonly<Record<CalendarWindow, number>> = {
  day: 86_400,
  week: 7 * 86_400,
  month: 31 * 86_400,
};

/** The calendar fields of a limit. */
export interface Calendar {
  readonly window: CalendarWindow;
  /** Null: UTC. */
  readonly timeZone: string | null;
  /** The day on which a month begins. Null: the tenant's anchor day, if the rule counts tenants; else the first. */
  readonly anchorDay: number | null;
}

/** The calendars in a snapshot. */
export interface PublishedCalendars {
  /** Epoch ms of the borders by the name of a calendar. */
  readonly borders: Readonly<Record<string, readonly number[]>>;
  /** The anchor days of tenants by id; empty if no rule uses them. */
  readonly anchorDays: Readonly<Record<string, number>>;
}

export interface Calendars {
  /** The borders around now in the caller's calendar. Undefined if the calendar was not published. */
  bordersFor(calendar: Calendar, counted: Counted, nowMs: number): Borders | undefined;
}

interface Counted {
  readonly rule: Pick<Rule, 'scope' | 'by'>;
  readonly tenantId: string | undefined;
}

export const calendarName = ({ window, timeZone, anchorDay }: Calendar): string =>
  `${window} ${timeZone ?? 'UTC'}${window === 'month' ? ` ${anchorDay ?? 1}` : ''}`;

/** Whether each tenant has its own months. Only if the rule counts tenants, because a counter has one calendar. */
export const isAnchoredByTenant = ({ window, anchorDay }: Calendar, { scope, by }: Counted['rule']) =>
  window === 'month' &&
  anchorDay === null &&
  scope === 'tenant' &&
  (by.length === 0 || by.includes('tenant'));

/** Undefined if no rule has a calendar, as in most snapshots. */
export function compileCalendars(published: PublishedCalendars | undefined): Calendars | undefined {
  if (!published) return undefined;
  const all = new Map(Object.entries(published.borders));
  const anchorDays = new Map(Object.entries(published.anchorDays));
  const latest = new Map<string, Borders>();

  const anchorDayFor = (calendar: Calendar, { rule, tenantId = '' }: Counted) =>
    isAnchoredByTenant(calendar, rule) ? (anchorDays.get(tenantId) ?? null) : calendar.anchorDay;

  return {
    bordersFor(calendar, counted, nowMs) {
      const name = calendarName({ ...calendar, anchorDay: anchorDayFor(calendar, counted) });
      const known = latest.get(name);
      if (known && nowMs >= known[1] && nowMs < known[2]) return known;
      const published = all.get(name);
      if (!published) return undefined;
      const borders = bordersAround(published, nowMs);
      latest.set(name, borders);
      return borders;
    },
  };
}

/** If the publisher could publish nothing for months, windows continue with the length of the last one. */
function bordersAround(published: readonly number[], nowMs: number): Borders {
  const all = [...published];
  const [before = 0, last = 1] = all.slice(-2);
  while ((all.at(-2) ?? nowMs) <= nowMs) all.push((all.at(-1) ?? 0) + last - before);
  const start = Math.max(
    1,
    all.findLastIndex((borderMs) => borderMs <= nowMs),
  );
  return all.slice(start - 1, start + 3) as [number, number, number, number];
}
