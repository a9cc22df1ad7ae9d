// Denials and usage, for operators and for invoices: as pages, or as CSV.

import { createRoute } from '@hono/zod-openapi';
import * as z from 'zod';
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
import { badCursor, parseCursor, toCursor } from '../collection/revisions.ts';
import { problemResponses } from '../problems.ts';

// Answers as comma-separated values, for spreadsheets (RFC 4180).

export const CSV_TYPE = 'text/csv; charset=utf-8';

export function toCsv<Row extends object>(columns: readonly (keyof Row & string)[], rows: readonly Row[]) {
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
const moment = z.iso
  .datetime({ offset: true, error: 'must be a moment such as 2030-01-31T12:00:00Z, with its zone' })
  .transform((text) => new Date(text));
const name = z.string().min(1).max(256);

const paging = {
  limit: z.coerce.number().int().min(1).max(1_000).default(50).describe('The size of a page.'),
  cursor: z.string().max(2048).optional().describe('The `nextCursor` of the previous page.'),
  format: z.enum(['json', 'csv']).default('json'),
};

const violator = z
  .strictObject({
    scope: z.string().optional().describe('Present with `by=all`.'),
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
      .describe('The hour, the day, or the id that `by` asks for. Empty for callers without one.'),
    requests: z.int(),
    cost: z.int(),
  })
  .meta({ id: 'Usage' });

const pageOf = (id: string, item: z.ZodType) =>
  z
    .strictObject({
      items: z.array(item),
      nextCursor: z.string().nullable().describe('Null on the last page.'),
    })
    .meta({ id });

const responses = (id: string, item: z.ZodType) => ({
  200: {
    description: 'A page',
    content: { 'application/json': { schema: pageOf(id, item) }, 'text/csv': { schema: z.string() } },
  },
  ...problemResponses(400),
});

const common = { method: 'get' as const, tags: ['records'], security: [{ bearer: [] }] };

const listViolators = createRoute({
  operationId: 'listViolators',
  ...common,
  path: '/violators',
  summary: 'Who was denied most',
  request: {
    query: z.strictObject({
      since: since.prefault('24h').describe('How far back: 90m, 24h, 7d.'),
      by: z.enum(VIOLATOR_KINDS).default('ip').describe('`all` means callers of any kind.'),
      ...paging,
    }),
  },
  responses: responses('ViolatorPage', violator),
});

const listEvents = createRoute({
  operationId: 'listEvents',
  ...common,
  path: '/events',
  summary: 'Denials by minute, rule and subject, newest first',
  request: {
    query: z.strictObject({
      since: since.prefault('24h'),
      rule: name.optional().describe('The id or the name of a rule.'),
      scope: z.enum(SCOPES).optional(),
      subject: name.optional().describe('Needs `scope`. Use the real name, even if Weir stores hashes.'),
      ...paging,
    }),
  },
  responses: responses('DenialEventPage', event),
});

const readSeries = createRoute({
  operationId: 'readEventSeries',
  ...common,
  path: '/events/series',
  summary: 'Denials over time, for a curve',
  request: {
    query: z.strictObject({
      since: since.prefault('1h').describe('How far back; at most 31 days.'),
      step: z.enum(SERIES_STEPS).default('minute').describe('Minutes go back at most 2 days.'),
      rule: name.optional().describe('The id or the name of a rule.'),
      scope: z.enum(SCOPES).optional(),
      subject: name.optional().describe('Needs `scope`. Use the real name, even if Weir stores hashes.'),
    }),
  },
  responses: {
    200: {
      description: 'Oldest first. A step without denials is left out',
      content: {
        'application/json': {
          schema: z
            .strictObject({
              from: z.iso.datetime(),
              to: z.iso.datetime(),
              items: z.array(z.strictObject({ at: z.iso.datetime(), count: z.int() })),
            })
            .meta({ id: 'DenialSeries' }),
        },
      },
    },
    ...problemResponses(400),
  },
});

const listUsage = createRoute({
  operationId: 'listUsage',
  ...common,
  path: '/usage',
  summary: 'Admitted requests and their cost',
  description:
    'Without `rule`, and not by rule, each request counts once, with the highest cost of its rules.',
  request: {
    query: z.strictObject({
      from: moment.optional().describe('The default is 30 days ago.'),
      to: moment.optional().describe('The default is now.'),
      tenant: name.optional(),
      user: name.optional(),
      apiKey: name.optional(),
      rule: name.optional().describe('The id of a rule.'),
      by: z.enum(USAGE_KINDS).default('day'),
      ...paging,
    }),
  },
  responses: responses('UsagePage', used),
});

export function addRecordRoutes(app: AdminApp, services: AdminServices): void {
  const { database, now } = services;
  const storedSubject: NonNullable<AdminServices['storedSubject']> =
    services.storedSubject ?? (async (_, subject) => subject);

  app.openapi(listViolators, async (c) => {
    const { by, since: sinceMs, limit, cursor, format } = c.req.valid('query');
    const { from, to, offset } = offsetOf(cursor, { from: new Date(now() - sinceMs), to: new Date(now()) });
    const found = await readViolators(database, { by, from, to, limit: limit + 1, offset });
    const items = found.slice(0, limit);
    const next = found.length > limit ? toOffset(offset + limit, { from, to }) : null;
    return format === 'csv'
      ? csv(toCsv(by === 'all' ? ['scope', ...VIOLATOR_COLUMNS] : VIOLATOR_COLUMNS, items), next)
      : c.json({ items, nextCursor: next }, 200);
  });

  app.openapi(listEvents, async (c) => {
    const { since: sinceMs, limit, cursor, format, rule, scope, subject } = c.req.valid('query');
    const after = cursor === undefined ? undefined : placeOf(cursor);
    const found = await readEvents(database, {
      from: new Date(now() - sinceMs),
      to: new Date(now() + UNIT_MS.m),
      rule,
      scope,
      subject: subject && scope ? await storedSubject(scope, subject) : subject,
      after,
      limit: limit + 1,
    });
    const items = found.slice(0, limit);
    const last = found.length > limit ? items.at(-1) : undefined;
    const next = last ? toCursor([last.at, last.scope, last.ruleId, last.subject]) : null;
    return format === 'csv'
      ? csv(toCsv(['at', 'scope', 'ruleId', 'ruleName', 'subject', 'count'], items), next)
      : c.json({ items, nextCursor: next }, 200);
  });

  app.openapi(readSeries, async (c) => {
    const { since: sinceMs, step, rule, scope, subject } = c.req.valid('query');
    const longestMs = (step === 'minute' ? 2 : 31) * UNIT_MS.d;
    const from = new Date(now() - Math.min(sinceMs, longestMs));
    const to = new Date(now());
    const items = await readDenialSeries(database, {
      from,
      to,
      step,
      rule,
      scope,
      subject: subject && scope ? await storedSubject(scope, subject) : subject,
    });
    return c.json({ from: from.toISOString(), to: to.toISOString(), items }, 200);
  });

  app.openapi(listUsage, async (c) => {
    const { from, to, limit, cursor, format, user, ...filter } = c.req.valid('query');
    const asked = { from: from ?? new Date(now() - 30 * UNIT_MS.d), to: to ?? new Date(now()) };
    const { offset, ...period } = offsetOf(cursor, asked);
    const stored = user === undefined ? undefined : await storedSubject('user', user);
    const found = await readUsage(database, { ...filter, ...period, user: stored, limit: limit + 1, offset });
    const items = found.slice(0, limit);
    const next = found.length > limit ? toOffset(offset + limit, period) : null;
    return format === 'csv'
      ? csv(toCsv(['name', 'requests', 'cost'], items), next)
      : c.json({ items, nextCursor: next }, 200);
  });
}

const VIOLATOR_COLUMNS = ['subject', 'count', 'lastAt', 'rules'] as const;

/** Where the previous page ended. */
function placeOf(cursor: string) {
  const [at = '', scope = '', ruleId = '', subject = ''] = parseCursor(cursor, 4);
  return [momentOf(at).toISOString(), scope, ruleId, subject] as const;
}

interface Asked {
  readonly from: Date;
  readonly to: Date;
}

/** All pages of one query cover the same period, although time goes on. */
const toOffset = (offset: number, { from, to }: Asked) =>
  toCursor([String(offset), from.toISOString(), to.toISOString()]);

function offsetOf(cursor: string | undefined, asked: Asked): Asked & { readonly offset: number } {
  if (cursor === undefined) return { ...asked, offset: 0 };
  const [offset = '', from = '', to = ''] = parseCursor(cursor, 3);
  if (!/^\d{1,9}$/.test(offset)) throw badCursor();
  return { offset: Number(offset), from: momentOf(from), to: momentOf(to) };
}

function momentOf(text: string): Date {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) throw badCursor();
  return date;
}

/** A header names the next page, because a CSV file has no place for it. */
const csv = (text: string, nextCursor: string | null) =>
  new Response(text, {
    headers: { 'Content-Type': CSV_TYPE, ...(nextCursor !== null && { 'X-Next-Cursor': nextCursor }) },
  });
