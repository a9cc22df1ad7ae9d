// The borders of the calendar windows that rules have, from the dates of their time zones.

import { createTimeZone, type TimeZone } from '../../authoring/time-zone.ts';
import {
  type Calendar,
  calendarName,
  isAnchoredByTenant,
  type PublishedCalendars,
} from '../../core/counting/calendar.ts';
import type { Rule } from '../../core/matching/rule.ts';

const DAY_MS = 86_400_000;
/**
 * The publisher writes borders for a span that moves on every four weeks, so that snapshots stay the same in between.
 * The span reaches three months further: a snapshot works for that long if nobody can publish.
 */
const STEP_MS = 28 * DAY_MS;
const REACH_MS = STEP_MS + 92 * DAY_MS;
/** The first Monday after the epoch, which was a Thursday. */
const SOME_MONDAY = 4;

/** A date, as the number of days since the epoch. */
type DayNumber = number;

/** A tenant whose months begin on a day of its own. */
export interface AnchoredTenant {
  readonly id: string;
  readonly anchorDay: number | null;
}

/** Undefined if no rule has a calendar. */
export function calendarsFor(
  rules: readonly Rule[],
  tenants: readonly AnchoredTenant[],
  nowMs: number,
): PublishedCalendars | undefined {
  const said = rules.flatMap((rule) => calendarsOf(rule).map((calendar) => ({ calendar, rule })));
  if (said.length === 0) return undefined;
  const isOfTenants = said.some(({ calendar, rule }) => isAnchoredByTenant(calendar, rule));
  const anchored = isOfTenants ? tenants.filter(({ anchorDay }) => anchorDay !== null) : [];
  const days = [null, ...new Set(anchored.map(({ anchorDay }) => anchorDay))];
  const calendars = said.flatMap(({ calendar, rule }) =>
    isAnchoredByTenant(calendar, rule) ? days.map((anchorDay) => ({ ...calendar, anchorDay })) : [calendar],
  );
  return {
    borders: bordersOf(calendars, nowMs - (nowMs % STEP_MS)),
    anchorDays: Object.fromEntries(anchored.map(({ id, anchorDay }) => [id, anchorDay ?? 1])),
  };
}

const calendarsOf = ({ limits }: Rule): Calendar[] =>
  limits.flatMap(({ window, timeZone, anchorDay }) =>
    window === null ? [] : [{ window, timeZone, anchorDay }],
  );

/** By their names, in a stable order. */
function bordersOf(calendars: readonly Calendar[], fromMs: number): PublishedCalendars['borders'] {
  const zones = new Map(
    calendars.map(({ timeZone }) => timeZone ?? 'UTC').map((name) => [name, createTimeZone(name)]),
  );
  const byName = new Map(calendars.map((calendar) => [calendarName(calendar), calendar]));
  const borders: Record<string, number[]> = {};
  for (const name of [...byName.keys()].sort()) {
    const calendar = byName.get(name);
    const zone = zones.get(calendar?.timeZone ?? 'UTC');
    if (calendar && zone) borders[name] = bordersBetween(calendar, zone, fromMs, fromMs + REACH_MS);
  }
  return borders;
}

/** Includes borders before and after the span, so that every moment of it has two on either side. */
export function bordersBetween(
  calendar: Calendar,
  zone: TimeZone,
  fromMs: number,
  untilMs: number,
): number[] {
  const dayOf = (ms: number): DayNumber => Math.floor(zone.toLocal(ms) / DAY_MS);
  const borderAt = (number: number) => zone.fromLocal(DAYS[calendar.window].dayOf(number, calendar) * DAY_MS);
  const first = DAYS[calendar.window].before(dayOf(fromMs)) - 2;
  const last = DAYS[calendar.window].before(dayOf(untilMs)) + 3;
  return Array.from({ length: last - first + 1 }, (_, i) => borderAt(first + i));
}

interface Dates {
  /** The number of a window that begins on that day or before. */
  before(day: DayNumber): number;
  /** The day on which the window with this number begins. */
  dayOf(number: number, calendar: Calendar): DayNumber;
}

const DAYS: Readonly<Record<Calendar['window'], Dates>> = {
  day: { before: (day) => day, dayOf: (number) => number },
  week: {
    before: (day) => Math.floor((day - SOME_MONDAY) / 7),
    dayOf: (number) => number * 7 + SOME_MONDAY,
  },
  month: {
    // The previous month has begun by then, whatever its anchor day.
    before: (day) => monthOf(day) - 1,
    dayOf(number, { anchorDay }) {
      // A month that has no such day begins on its last day.
      const length = firstDayOf(number + 1) - firstDayOf(number);
      return firstDayOf(number) + Math.min(anchorDay ?? 1, length) - 1;
    },
  },
};

const monthOf = (day: DayNumber): number => {
  const date = new Date(day * DAY_MS);
  return date.getUTCFullYear() * 12 + date.getUTCMonth();
};
const firstDayOf = (month: number): DayNumber => Date.UTC(Math.floor(month / 12), month % 12) / DAY_MS;
