// Denials and usage, for operators and for invoices: as pages, or as CSV.

import * as z from 'zod';
import { moment } from '../../authoring/bodies.ts';
import { SCOPES } from '../../core/matching/rule.ts';
import {
  readDenialSeries,
  readEvents,
  readUsage,
  readViolators,
  SERIES_STEPS,
  USAGE_KINDS,
  VIOLATOR_KINDS,
} from '../../telemetry/queries.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { addOperation, json } from '../operation.ts';
import { momentIn, numberIn, pageOf, pageQuery, parseCursor, toPage } from '../paging.ts';

// Answers as comma-separated values, for spreadsheets (RFC 4180).

const CSV_TYPE = 'text/csv; charset=utf-8';

function toCsv<Row extends object>(columns: readonly (keyof Row & string)[], rows: readonly Row[]) {
  const lines = rows.map((row) => columns.map((column) => cellOf(row[column])).join(','));
  return [columns.join(','), ...lines].map((line) => `${line}\r\n`).join('');
}

/** Texts that a spreadsheet would take for a formula. Callers choose some texts, such as user ids. */
const FORMULA = /^[=+\-@\t\r]/;

function cellOf(value: unknown): string {
  if (typeof value === 'number') return String(value);
  const text = Array.isArray(value) ? value.join(' ') : String(value ?? '');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const UNIT_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const SINCE = /^([1-9]\d{0,4})([mhd])$/;

const since = z
  .string()
  .regex(SINCE, 'must be a time such as 90m, 24h or 7d')
  .transform((text) => {
    const [, count, unit = 'h'] = SINCE.exec(text) ?? [];
    return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
  });
const name = z.string().min(1).max(256);

const paging = { ...pageQuery(1_000), format: z.enum(['json', 'csv']).default('json') };

const violator = z
  .strictObject({
    scope: z.string().optional().describe('Present with `groupBy=all`.'),
    subject: z.string().describe('`other` stands for the subjects of a flood that were not told apart.'),
    count: z.int(),
    lastAt: z.iso.datetime(),
    rules: z.array(z.string()).describe('The names of up to ten rules that denied the subject.'),
  })
  .meta({ id: 'Violator' });
const event = z
  .strictObject({
    at: z.iso.datetime().describe('The minute of the denials.'),
    scope: z.enum(SCOPES),
    ruleId: z.string(),
    ruleName: z.string(),
    subject: z.string(),
    count: z.int(),
  })
  .meta({ id: 'DenialEvent' });
const used = z
  .strictObject({
    name: z
      .string()
      .describe('The hour, the day, or the id that `groupBy` asks for. Empty for callers without one.'),
    requests: z.int(),
    cost: z.int(),
  })
  .meta({ id: 'Usage' });

/** A page of records, as JSON or as CSV. */
const answersOf = (id: string, item: z.ZodType) => ({
  answers: {
    200: {
      description: 'A page',
      content: { 'application/json': { schema: pageOf(id, item) }, 'text/csv': { schema: z.string() } },
    },
  },
});

/** A header names the next page of CSV, because such a file has no place for it. */
const answer = <Row extends object>(
  page: { readonly items: readonly Row[]; readonly nextCursor: string | null },
  format: 'json' | 'csv',
  columns: readonly (keyof Row & string)[],
): Response =>
  format === 'json'
    ? json(page)
    : new Response(toCsv(columns, page.items), {
        headers: {
          'Content-Type': CSV_TYPE,
          ...(page.nextCursor !== null && { 'X-Next-Cursor': page.nextCursor }),
        },
      });

/** Which denials. */
const denials = {
  rule: name.optional().describe('The id or the name of a rule.'),
  scope: z.enum(SCOPES).optional(),
  subject: name.optional().describe('Needs `scope`. Use the real name, even if Weir stores hashes.'),
};

const series = z
  .strictObject({
    from: z.iso.datetime(),
    to: z.iso.datetime(),
    items: z.array(z.strictObject({ at: z.iso.datetime(), count: z.int() })),
  })
  .meta({ id: 'DenialSeries' });

interface Period {
  readonly from: Date;
  readonly to: Date;
}

/** All pages of one query cover the same period, although time goes on. */
const positionAt = (offset: number, { from, to }: Period) => [
  String(offset),
  from.toISOString(),
  to.toISOString(),
];

function startOf(cursor: string | undefined, first: Period): Period & { readonly offset: number } {
  if (cursor === undefined) return { ...first, offset: 0 };
  const [offset, from, to] = parseCursor(cursor, 3);
  return { offset: numberIn(offset, 9), from: momentIn(from), to: momentIn(to) };
}

/** Where the previous page of events ended. */
function placeOf(cursor: string) {
  const [at, scope = '', ruleId = '', subject = ''] = parseCursor(cursor, 4);
  return [momentIn(at).toISOString(), scope, ruleId, subject] as const;
}

export function addRecordRoutes(app: AdminApp, services: AdminServices): void {
  const { database, now, storedSubject = async (_, subject) => subject } = services;
  const group = 'records';

  /** The subject as records have it. */
  const stored = async <
    F extends { scope?: (typeof SCOPES)[number] | undefined; subject?: string | undefined },
  >(
    which: F,
  ) => ({
    ...which,
    subject: which.subject && which.scope ? await storedSubject(which.scope, which.subject) : which.subject,
  });

  addOperation(
    app,
    {
      id: 'listViolators',
      call: 'GET /violators',
      group,
      summary: 'Who was denied most',
      query: z.strictObject({
        since: since.prefault('24h').describe('How far back: 90m, 24h, 7d.'),
        groupBy: z.enum(VIOLATOR_KINDS).default('ip').describe('`all` means callers of any kind.'),
        ...paging,
      }),
      ...answersOf('ViolatorPage', violator),
    },
    async ({ query: { groupBy, since: sinceMs, limit, cursor, format } }) => {
      const { offset, ...period } = startOf(cursor, {
        from: new Date(now() - sinceMs),
        to: new Date(now()),
      });
      const found = await readViolators(database, { by: groupBy, ...period, limit: limit + 1, offset });
      const page = toPage(found, limit, () => positionAt(offset + limit, period));
      const columns = ['subject', 'count', 'lastAt', 'rules'] as const;
      return answer(page, format, groupBy === 'all' ? ['scope', ...columns] : columns);
    },
  );

  addOperation(
    app,
    {
      id: 'listEvents',
      call: 'GET /events',
      group,
      summary: 'Denials by minute, rule and subject, newest first',
      query: z.strictObject({ since: since.prefault('24h'), ...denials, ...paging }),
      ...answersOf('DenialEventPage', event),
    },
    async ({ query: { since: sinceMs, limit, cursor, format, ...which } }) => {
      const found = await readEvents(database, {
        ...(await stored(which)),
        from: new Date(now() - sinceMs),
        to: new Date(now() + UNIT_MS.m),
        after: cursor === undefined ? undefined : placeOf(cursor),
        limit: limit + 1,
      });
      const page = toPage(found, limit, ({ at, scope, ruleId, subject }) => [at, scope, ruleId, subject]);
      return answer(page, format, ['at', 'scope', 'ruleId', 'ruleName', 'subject', 'count']);
    },
  );

  addOperation(
    app,
    {
      id: 'readEventSeries',
      call: 'GET /events/series',
      group,
      summary: 'Denials over time, for a curve',
      query: z.strictObject({
        since: since.prefault('1h').describe('How far back; at most 31 days.'),
        step: z.enum(SERIES_STEPS).default('minute').describe('Minutes go back at most 2 days.'),
        ...denials,
      }),
      says: 'Oldest first. A step without denials is left out',
      answer: series,
    },
    async ({ query: { since: sinceMs, step, ...which } }) => {
      const longestMs = (step === 'minute' ? 2 : 31) * UNIT_MS.d;
      const from = new Date(now() - Math.min(sinceMs, longestMs));
      const to = new Date(now());
      const items = await readDenialSeries(database, { ...(await stored(which)), from, to, step });
      return { from: from.toISOString(), to: to.toISOString(), items };
    },
  );

  addOperation(
    app,
    {
      id: 'listUsage',
      call: 'GET /usage',
      group,
      summary: 'Admitted requests and their cost',
      description:
        'Without `rule`, and not by rule, each request counts once, with the highest cost of its rules.',
      query: z.strictObject({
        from: moment.optional().describe('The default is 30 days ago.'),
        to: moment.optional().describe('The default is now.'),
        tenant: name.optional(),
        user: name.optional(),
        apiKey: name.optional(),
        rule: name.optional().describe('The id of a rule.'),
        groupBy: z.enum(USAGE_KINDS).default('day'),
        ...paging,
      }),
      ...answersOf('UsagePage', used),
    },
    async ({ query: { from, to, limit, cursor, format, user, groupBy, ...which } }) => {
      const { offset, ...period } = startOf(cursor, {
        from: from ?? new Date(now() - 30 * UNIT_MS.d),
        to: to ?? new Date(now()),
      });
      const found = await readUsage(database, {
        ...which,
        ...period,
        by: groupBy,
        user: user && (await storedSubject('user', user)),
        limit: limit + 1,
        offset,
      });
      const page = toPage(found, limit, () => positionAt(offset + limit, period));
      return answer(page, format, ['name', 'requests', 'cost']);
    },
  );
}
