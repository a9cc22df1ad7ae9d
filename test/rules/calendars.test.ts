// Compares the borders of calendar windows with those of Postgres, over all clock changes of many time zones.

import { sql } from 'drizzle-orm';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { createTimeZone } from '../../src/authoring/time-zone.ts';
import { CALENDAR_WINDOWS, type Calendar } from '../../src/core/counting/calendar.ts';
import type { Rule } from '../../src/core/matching/rule.ts';
import { bordersBetween, calendarsFor } from '../../src/rules/publishing/calendars.ts';
import { rounds } from '../rounds.ts';
import { startDatabase, type TestDatabase } from './database.ts';

const DAY_MS = 86_400_000;
/** Whole and half hours, both hemispheres, clocks that change at midnight, and some that never do. */
const ZONES = [
  ...['UTC', 'Europe/Berlin', 'Europe/London', 'America/New_York', 'America/Los_Angeles', 'Asia/Kolkata'],
  ...['Asia/Tokyo', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'Australia/Adelaide', 'Pacific/Auckland'],
  ...['Pacific/Chatham', 'America/Santiago', 'America/Havana', 'America/St_Johns', 'Atlantic/Azores'],
  ...['Africa/Johannesburg', 'America/Sao_Paulo', 'Pacific/Apia', 'Pacific/Kiritimati', 'Etc/GMT+12'],
];

let postgres: TestDatabase;
beforeAll(async () => {
  postgres = await startDatabase();
});
afterAll(() => postgres[Symbol.asyncDispose]());

/** The start of the window that contains the moment, as Postgres truncates it. */
const START = sql`case when question."window" = 'month'
  then case when local >= this_month then this_month else last_month end else date_trunc(question."window", local) end`;
const dayOf = (month: ReturnType<typeof sql>) => sql`${month} + make_interval(days =>
  least(question.anchor, extract(day from ${month} + interval '1 month - 1 day'))::int - 1)`;

interface Question extends Calendar {
  readonly timeZone: string;
  readonly ms: number;
}

async function askPostgres(questions: readonly Question[]): Promise<number[]> {
  const asked = questions.map(({ window, timeZone, anchorDay, ms }, i) => ({
    i,
    window,
    zone: timeZone,
    anchor: anchorDay ?? 1,
    ms,
  }));
  const { rows } = await postgres.database.execute<{ ms: string }>(sql`
    select (extract(epoch from (${START}) at time zone zone) * 1000)::bigint::text as ms
    from jsonb_to_recordset(${JSON.stringify(asked)}::jsonb)
      as question (i int, "window" text, zone text, anchor int, ms bigint),
    lateral (select to_timestamp(ms / 1000.0) at time zone zone as local) as there,
    lateral (select ${dayOf(sql`date_trunc('month', local)`)} as this_month,
      ${dayOf(sql`date_trunc('month', local) - interval '1 month'`)} as last_month) as months
    order by i`);
  return rows.map(({ ms }) => Number(ms));
}

const question = fc.record<Question>({
  window: fc.constantFrom(...CALENDAR_WINDOWS),
  timeZone: fc.constantFrom(...ZONES),
  anchorDay: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 31 })),
  ms: fc.integer({ min: Date.UTC(2012, 0), max: Date.UTC(2026, 0) }),
});

function startBefore({ ms, timeZone, ...calendar }: Question): number | undefined {
  const borders = bordersBetween({ ...calendar, timeZone }, createTimeZone(timeZone), ms, ms);
  return borders.findLast((borderMs) => borderMs <= ms);
}

describe('a window of the calendar', () => {
  it('begins at the same moment as in Postgres, in every time zone and through every clock change', async () => {
    const questions = fc.sample(question, rounds(1_000));
    const starts = await askPostgres(questions);
    const answered = questions.map((one, i) => ({ ...one, startMs: starts[i] ?? 0 }));
    // In an hour that clocks show twice after midnight, Postgres names a start in the future.
    const past = answered.filter(({ ms, startMs }) => startMs <= ms);
    expect(past.length).toBeGreaterThan(0.99 * questions.length);
    expect(past.filter((one) => startBefore(one) !== one.startMs)).toEqual([]);
  });

  it('begins at the same moment as in Postgres on each day of two years', async () => {
    const from = Date.UTC(2024, 0, 1, 12);
    const noons = Array.from({ length: 731 }, (_, i) => from + i * DAY_MS);
    for (const timeZone of ['America/Havana', 'America/Santiago', 'Australia/Lord_Howe', 'Europe/Berlin']) {
      const calendar = { window: 'day', timeZone, anchorDay: null } as const;
      const starts = await askPostgres(noons.map((ms) => ({ ...calendar, ms })));
      const borders = bordersBetween(calendar, createTimeZone(timeZone), from, noons.at(-1) ?? 0);
      expect(starts.filter((startMs) => !borders.includes(startMs))).toEqual([]);
      expect(borders.filter((ms) => ms >= (starts[0] ?? 0) && ms <= (starts.at(-1) ?? 0))).toEqual(starts);
    }
  });
});

const rule = (fields: RuleFields): Rule => createRule({ scope: 'tenant', windowSeconds: null, ...fields });

describe('the published calendar', () => {
  const NOW_MS = Date.UTC(2026, 10, 17);
  const berlin = rule({ window: 'day', timeZone: 'Europe/Berlin' });

  it('reaches at least three months ahead, and begins with two past borders', () => {
    for (let ms = NOW_MS; ms < NOW_MS + 30 * DAY_MS; ms += DAY_MS) {
      const borders = calendarsFor([berlin], [], ms)?.borders['day Europe/Berlin'] ?? [];
      expect(borders[1]).toBeLessThanOrEqual(ms);
      expect(borders.at(-2)).toBeGreaterThan(ms + 92 * DAY_MS);
    }
  });

  it('stays the same for weeks, so that isolates keep it', () => {
    const texts = Array.from({ length: 28 }, (_, i) =>
      JSON.stringify(calendarsFor([berlin], [], NOW_MS + i * DAY_MS)),
    );
    expect(new Set(texts).size).toBe(2);
  });

  it('has the borders for each day on which months of tenants begin, if a rule needs them', () => {
    const tenants = [
      { id: 'acme', anchorDay: 31 },
      { id: 'globex', anchorDay: 7 },
    ];
    const months = calendarsFor([rule({ window: 'month' })], tenants, NOW_MS);
    expect(Object.keys(months?.borders ?? {})).toEqual(['month UTC 1', 'month UTC 31', 'month UTC 7']);
    expect(months?.anchorDays).toEqual({ acme: 31, globex: 7 });
    expect(calendarsFor([rule({ window: 'month', scope: 'user' })], tenants, NOW_MS)?.anchorDays).toEqual({});
    expect(calendarsFor([rule({ windowSeconds: 60 })], tenants, NOW_MS)).toBeUndefined();
  });
});
