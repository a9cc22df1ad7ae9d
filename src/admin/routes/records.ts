// Denials and usage, for operators and for invoices: as pages, or as CSV.

import { eq, inArray } from 'drizzle-orm';
import * as z from 'zod';
import { moment } from '../../authoring/bodies.ts';
import { SCOPES } from '../../core/matching/rule.ts';
import { ProblemError } from '../../http/internal-requests.ts';
import type { Database } from '../../rules/tables/repository.ts';
import { apiKeys, rules } from '../../rules/tables/tables.ts';
import {
  EVENT_POSITION,
  type NameOrId,
  readDenialSeries,
  readDeniedRequests,
  readEvents,
  readUsage,
  readViolators,
  SERIES_STEPS,
  USAGE_KINDS,
  VIOLATOR_KINDS,
} from '../../telemetry/queries.ts';
import { SAMPLE_DAYS } from '../../telemetry/store.ts';
import type { AdminApp, AdminServices } from '../app.ts';
import { isUuid } from '../collection/declaration.ts';
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
  const text = Array.isArray(value) ? value.map(textOf).join(' ') : String(value ?? '');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Of an item with an id: its name. Of a subject: its scope and id. */
const textOf = ({ name, scope, subject }: Readonly<Record<string, unknown>>): string =>
  String(name ?? `${scope} ${subject}`);

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

const idOrNull = z.string().nullable();
/** Who called, whatever the rule counts. */
const callerIds = {
  tenantId: idOrNull.describe('Null if the caller has none, as the other ids.'),
  userId: idOrNull,
  apiKeyId: idOrNull,
};
const keyName = idOrNull.describe('The name of the API key. Null if it has none, or is gone.');
const subject = z.strictObject({ scope: z.enum(SCOPES), subject: z.string() });

const violator = z
  .strictObject({
    scope: z.string().optional().describe('Present with `groupBy=all`, as the ids of the caller.'),
    subject: z
      .string()
      .describe(
        'With `groupBy=all`: the most exact id of the caller (API key, user, tenant, or else the address). ' +
          '`other` stands for the callers of a flood that were not told apart.',
      ),
    name: idOrNull.describe(
      'The name of the rule or the API key. Null for others, and for a key without one.',
    ),
    ...z.object(callerIds).partial().shape,
    countedAs: z
      .array(subject)
      .optional()
      .describe(
        'Up to ten subjects as whom rules counted the caller. Left out for addresses and for all callers of a rule.',
      ),
    count: z.int(),
    lastAt: z.iso.datetime(),
    rules: z
      .array(z.strictObject({ id: z.string(), name: z.string() }))
      .describe('Up to ten rules that denied the caller.'),
  })
  .meta({ id: 'Violator' });
const event = z
  .strictObject({
    at: z.iso.datetime().describe('The minute of the denials.'),
    scope: z.enum(SCOPES),
    ruleId: z.string(),
    ruleName: z.string(),
    subject: z.string().describe('With `scope`: who was counted.'),
    ...callerIds,
    apiKeyName: keyName,
    count: z.int(),
  })
  .meta({ id: 'DenialEvent' });
const deniedRequest = z
  .strictObject({
    requestId: z.string().describe('As in the answer: the header X-Weir-Request.'),
    at: z.iso.datetime(),
    status: z.int(),
    code: z.string().describe('The code of the answer, such as rate-limited.'),
    method: z.string(),
    route: z.string(),
    region: z.string().describe('The nearest region.'),
    ...callerIds,
    apiKeyName: keyName,
    rules: z
      .array(
        z.strictObject({
          id: z.string(),
          name: z.string().describe('The name of the rule at that time.'),
          resource: z.string().describe('Of the rule. Weir keeps neither the path nor the query.'),
          ...subject.shape,
          limit: z.int(),
          windowSeconds: z.number(),
          cost: z.int(),
          remaining: z.int(),
          retryAfterMs: z.number().nullable().describe('Null if no wait would have helped.'),
        }),
      )
      .describe('The rules that denied the request. Empty if none did: `code` says what did.'),
  })
  .meta({ id: 'DeniedRequest' });
const used = z
  .strictObject({
    name: z
      .string()
      .describe(
        'The hour, the day, or the tenant, user, API key or rule that `groupBy` asks for. Empty for callers without one. ' +
          'A key without a name has its id here, and so has a rule or key that is gone.',
      ),
    id: z.string().optional().describe('Present with `groupBy=apiKey` and `groupBy=rule`.'),
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

const ofRule = name.optional().describe('The id or the name of a rule.');

/** Which callers. */
const ofCaller = {
  tenant: name.optional(),
  user: name.optional().describe('Use the real name, even if Weir stores hashes.'),
  apiKey: name.optional().describe('The id or the name of a key. Not the key itself.'),
};

/** Which denials. */
const denials = {
  rule: ofRule,
  ...ofCaller,
  scope: z
    .enum(SCOPES)
    .optional()
    .describe('The scope by which a rule counted. With `subject`: only that one.'),
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
  const [at, ...rest] = parseCursor(cursor, EVENT_POSITION);
  return [momentIn(at).toISOString(), ...rest];
}

// Rules and keys are asked for by id or name, and shown with both.

type NamedTable = typeof rules | typeof apiKeys;

async function findNamed(database: Database, table: NamedTable, given: string): Promise<NameOrId> {
  const found = await database.select({ id: table.id }).from(table).where(eq(table.name, given));
  return { name: given, ids: [given, ...found.map(({ id }) => id)] };
}

/** The names by id. */
async function readNames(database: Database, table: NamedTable, ids: readonly (string | null | undefined)[]) {
  const known = [...new Set(ids)].filter((id) => typeof id === 'string' && isUuid(id)) as string[];
  if (known.length === 0) return new Map<string, string>();
  const { id, name: named } = table;
  const rows = await database.select({ id, name: named }).from(table).where(inArray(id, known));
  return new Map(rows.flatMap((row) => (row.name === '' ? [] : [[row.id, row.name]])));
}

/** A Ray ID of Cloudflare may come with the data centre, as in the header CF-Ray. */
const RAY_ID = /^[0-9a-f]{16}(?=-[A-Z]{3}$)/;

const NOT_SAMPLED = new ProblemError({
  status: 404,
  code: 'not-found',
  title: 'There is no such request',
  detail:
    'Weir keeps a sample of the denied requests for a day. It can take a minute until a new one is here. ' +
    '/events counts all denials, by minute and caller.',
});

export function addRecordRoutes(app: AdminApp, services: AdminServices): void {
  const { database, now, storedSubject = async (_, subject) => subject } = services;
  const group = 'records';

  interface Asked {
    readonly rule?: string | undefined;
    readonly tenant?: string | undefined;
    readonly user?: string | undefined;
    readonly apiKey?: string | undefined;
  }

  /** Rules and callers as records have them. */
  const recorded = async ({ rule, tenant, user, apiKey }: Asked) => ({
    tenant,
    user: user && (await storedSubject('user', user)),
    rule: rule === undefined ? undefined : await findNamed(database, rules, rule),
    apiKey: apiKey === undefined ? undefined : await findNamed(database, apiKeys, apiKey),
  });

  type Denied = Asked & { scope?: (typeof SCOPES)[number] | undefined; subject?: string | undefined };

  /** Also the subject as records have it. */
  const recordedDenials = async ({ scope, subject, ...asked }: Denied) => ({
    ...(await recorded(asked)),
    scope,
    subject: subject && scope ? await storedSubject(scope, subject) : subject,
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
        groupBy: z.enum(VIOLATOR_KINDS).default('all').describe('`all` means callers of any kind.'),
        ...denials,
        ...paging,
      }),
      ...answersOf('ViolatorPage', violator),
    },
    async ({ query: { groupBy, since: sinceMs, limit, cursor, format, ...which } }) => {
      const { offset, ...period } = startOf(cursor, {
        from: new Date(now() - sinceMs),
        to: new Date(now()),
      });
      const filter = { by: groupBy, ...period, ...(await recordedDenials(which)) };
      const found = await readViolators(database, { ...filter, limit: limit + 1, offset });
      const page = toPage(found, limit, () => positionAt(offset + limit, period));
      const named = groupBy === 'rule' ? rules : apiKeys;
      const kindOfNamed = groupBy === 'rule' ? 'rule' : 'apiKey';
      const ids = page.items.map(({ scope = groupBy, subject: id }) => (scope === kindOfNamed ? id : null));
      const names = await readNames(database, named, ids);
      const items = page.items.map((one) => ({
        ...one,
        // Of a rule that is gone, the records have the name.
        name: names.get(one.subject) ?? (groupBy === 'rule' ? (one.rules.at(-1)?.name ?? null) : null),
      }));
      const columns = ['count', 'lastAt', 'rules'] as const;
      const callerColumns = ['tenantId', 'userId', 'apiKeyId'] as const;
      const hasNames = groupBy === 'rule' || groupBy === 'apiKey';
      return answer(
        { ...page, items },
        format,
        groupBy === 'all'
          ? ['scope', 'subject', 'name', ...callerColumns, ...columns, 'countedAs']
          : [...(hasNames ? (['subject', 'name'] as const) : (['subject'] as const)), ...columns],
      );
    },
  );

  addOperation(
    app,
    {
      id: 'listEvents',
      call: 'GET /events',
      group,
      summary: 'Denials by minute, rule, subject and caller, newest first',
      query: z.strictObject({ since: since.prefault('24h'), ...denials, ...paging }),
      ...answersOf('DenialEventPage', event),
    },
    async ({ query: { since: sinceMs, limit, cursor, format, ...which } }) => {
      const found = await readEvents(database, {
        ...(await recordedDenials(which)),
        from: new Date(now() - sinceMs),
        to: new Date(now() + UNIT_MS.m),
        after: cursor === undefined ? undefined : placeOf(cursor),
        limit: limit + 1,
      });
      const page = toPage(found, limit, ({ at, scope, ruleId, subject: id, tenantId, userId, apiKeyId }) => [
        ...[at, scope, ruleId, id],
        ...[tenantId, userId, apiKeyId].map((one) => one ?? ''),
      ]);
      return answer({ ...page, items: await withKeyNames(page.items) }, format, [
        ...(['at', 'scope', 'ruleId', 'ruleName', 'subject'] as const),
        ...(['tenantId', 'userId', 'apiKeyId', 'apiKeyName', 'count'] as const),
      ]);
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
      const items = await readDenialSeries(database, { ...(await recordedDenials(which)), from, to, step });
      return { from: from.toISOString(), to: to.toISOString(), items };
    },
  );

  /** Older ones may wait to be deleted. */
  const oldestSample = () => now() - SAMPLE_DAYS * UNIT_MS.d;

  const withKeyNames = async <One extends { readonly apiKeyId: string | null }>(found: readonly One[]) => {
    const names = await readNames(
      database,
      apiKeys,
      found.map(({ apiKeyId }) => apiKeyId),
    );
    return found.map((one) => ({ ...one, apiKeyName: names.get(one.apiKeyId ?? '') ?? null }));
  };

  addOperation(
    app,
    {
      id: 'listDeniedRequests',
      call: 'GET /denials',
      group,
      summary: 'A sample of denied requests in full, of the last day, newest first',
      description: 'Of a flood, the sample has a small part. `/events` counts all denials.',
      query: z.strictObject({
        from: moment.optional().describe('The default, and the earliest, is a day ago.'),
        to: moment.optional().describe('The default is now.'),
        rule: ofRule,
        ...ofCaller,
        ...pageQuery(1_000),
      }),
      says: 'A page',
      answer: pageOf('DeniedRequestPage', deniedRequest),
    },
    async ({ query: { from, to, limit, cursor, ...which } }) => {
      const [at, requestId = ''] = cursor === undefined ? [] : parseCursor(cursor, 2);
      const found = await readDeniedRequests(database, {
        ...(await recorded(which)),
        from: new Date(Math.max(from?.getTime() ?? 0, oldestSample())),
        to: to ?? new Date(now() + UNIT_MS.m),
        after: cursor === undefined ? undefined : [momentIn(at).toISOString(), requestId],
        limit: limit + 1,
      });
      const page = toPage(found, limit, (last) => [last.at, last.requestId]);
      return { ...page, items: await withKeyNames(page.items) };
    },
  );

  addOperation(
    app,
    {
      id: 'readDeniedRequest',
      call: 'GET /denials/{id}',
      group,
      summary: 'Why a request was denied',
      description: 'Finds a request of the last day by its id, if the sample has it.',
      params: z.strictObject({
        id: z
          .string()
          .max(64)
          .transform((id) => RAY_ID.exec(id)?.[0] ?? id)
          .describe('X-Weir-Request of the answer, or its CF-Ray with or without the data centre.'),
      }),
      says: 'The request',
      answer: deniedRequest,
      problems: [404],
    },
    async ({ params: { id } }) => {
      const period = { from: new Date(oldestSample()), to: new Date(now() + UNIT_MS.m) };
      const found = await readDeniedRequests(database, { ...period, id, limit: 1 });
      const [request] = await withKeyNames(found);
      if (!request) throw NOT_SAMPLED;
      return request;
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
        ...ofCaller,
        rule: ofRule,
        groupBy: z.enum(USAGE_KINDS).default('day'),
        ...paging,
      }),
      ...answersOf('UsagePage', used),
    },
    async ({ query: { from, to, limit, cursor, format, groupBy, ...which } }) => {
      const { offset, ...period } = startOf(cursor, {
        from: from ?? new Date(now() - 30 * UNIT_MS.d),
        to: to ?? new Date(now()),
      });
      const filter = { ...(await recorded(which)), ...period, by: groupBy };
      const found = await readUsage(database, { ...filter, limit: limit + 1, offset });
      const page = toPage(found, limit, () => positionAt(offset + limit, period));
      const table = groupBy === 'rule' ? rules : groupBy === 'apiKey' ? apiKeys : undefined;
      if (!table) return answer(page, format, ['name', 'requests', 'cost']);
      const ids = page.items.map(({ name: id }) => id);
      const names = await readNames(database, table, ids);
      const items = page.items.map((one) => ({
        ...one,
        id: one.name,
        name: names.get(one.name) ?? one.name,
      }));
      return answer({ ...page, items }, format, ['name', 'id', 'requests', 'cost']);
    },
  );
}
