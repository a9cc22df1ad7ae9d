// The tables of denials and usage, as Drizzle sees them. People do not edit these rows, so no row has a revision or a
// history. Only store.ts, alerts.ts and the queries of the admin route use them.
import { type SQL, sql } from 'drizzle-orm';
import { bigint, check, index, integer, jsonb, primaryKey, text, timestamp, uuid } from 'drizzle-orm/pg-core';
import { weir } from '../rules/tables/columns.ts';

const moment = () => timestamp({ withTimezone: true });
const whole = () => bigint({ mode: 'number' });

/** A moment as answers and messages write it. */
export const isoTime = (moment: SQL): SQL =>
  sql`to_char(${moment} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`;

/** Denials, summed up by minute, rule, subject and caller. An id that a caller does not have is ''. */
export const denials = weir.table(
  'denials',
  {
    /** The minute. */
    at: moment().notNull(),
    /** With `subject`: who was counted. */
    scope: text().notNull(),
    ruleId: text().notNull(),
    /** The name of the rule at that time. */
    ruleName: text().notNull(),
    subject: text().notNull(),
    /** Who called, whatever the rule counts. */
    tenantId: text().notNull(),
    userId: text().notNull(),
    apiKeyId: text().notNull(),
    count: whole().notNull(),
  },
  (table) => [
    // In this order the newest rows are together, and so are the rows of one scope. A day of one scope is one range for
    // each minute, and Postgres reads it from the index alone.
    primaryKey({
      name: 'denials_once',
      columns: [
        table.at,
        table.scope,
        table.ruleId,
        table.subject,
        table.tenantId,
        table.userId,
        table.apiKeyId,
      ],
    }),
    check('denials_count_is_positive', sql`${table.count} >= 1`),
    index('denials_scope_at').on(table.scope, table.at),
    index('denials_subject').on(table.scope, table.subject, table.at),
    index('denials_rule').on(table.ruleId, table.at),
    // A flood of unknown callers writes none of these.
    index('denials_tenant').on(table.tenantId, table.at).where(sql`${table.tenantId} <> ''`),
    index('denials_user').on(table.userId, table.at).where(sql`${table.userId} <> ''`),
    index('denials_key').on(table.apiKeyId, table.at).where(sql`${table.apiKeyId} <> ''`),
  ],
);

/** Denials as the version before has written them, without the caller. The next version removes this table. */
export const events = weir.table(
  'events',
  {
    /** The minute. */
    at: moment().notNull(),
    scope: text().notNull(),
    ruleId: text().notNull(),
    /** The name of the rule at that time. */
    ruleName: text().notNull(),
    subject: text().notNull(),
    count: whole().notNull(),
  },
  (table) => [
    // In this order the newest rows are together, and so are the rows of one scope. A day of one scope is one range for
    // each minute, and Postgres reads it from the index alone.
    primaryKey({ columns: [table.at, table.scope, table.ruleId, table.subject] }),
    check('events_count_is_positive', sql`${table.count} >= 1`),
    index('events_scope_at').on(table.scope, table.at),
    index('events_subject').on(table.scope, table.subject, table.at),
    index('events_rule').on(table.ruleId, table.at),
  ],
);

/** A sample of denied requests in full, kept for a day. An id that a caller does not have is ''. */
export const deniedRequests = weir.table(
  'denied_requests',
  {
    requestId: text().primaryKey(),
    at: moment().notNull(),
    status: integer().notNull(),
    code: text().notNull(),
    method: text().notNull(),
    route: text().notNull(),
    region: text().notNull(),
    tenantId: text().notNull(),
    userId: text().notNull(),
    apiKeyId: text().notNull(),
    /** A list: each rule that denied the request, with its numbers. */
    rules: jsonb().notNull(),
  },
  (table) => [index('denied_requests_at').on(table.at, table.requestId)],
);

/** Admitted requests and their cost, summed up by hour, caller and rule. An id that a caller does not have is ''. */
export const usage = weir.table(
  'usage',
  {
    /** The hour. */
    at: moment().notNull(),
    tenantId: text().notNull(),
    userId: text().notNull(),
    apiKeyId: text().notNull(),
    /** '' for all requests of the caller, whatever rules applied. */
    ruleId: text().notNull(),
    requests: whole().notNull(),
    cost: whole().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.at, table.tenantId, table.userId, table.apiKeyId, table.ruleId] }),
    index('usage_tenant').on(table.tenantId, table.at),
    index('usage_user').on(table.userId, table.at),
    index('usage_rule').on(table.ruleId, table.at),
  ],
);

/** Subjects that have reached a threshold of a rule, each once in a window; and whether the webhook has the message. */
export const alerts = weir.table(
  'alerts',
  {
    ruleId: text().notNull(),
    windowSeconds: integer().notNull(),
    windowStart: moment().notNull(),
    scope: text().notNull(),
    subject: text().notNull(),
    percent: integer().notNull(),
    ruleName: text().notNull(),
    limit: whole().notNull(),
    used: whole().notNull(),
    /** When an isolate noticed it. */
    at: moment().notNull(),
    /** The id of the message, the same however often it is sent. */
    id: uuid().notNull().defaultRandom(),
    attempts: integer().notNull().default(0),
    /** No isolate sends the message before this time. */
    nextAt: moment().notNull().defaultNow(),
    sentAt: moment(),
  },
  (table) => [
    primaryKey({
      name: 'alerts_once',
      columns: [
        table.ruleId,
        table.windowSeconds,
        table.windowStart,
        table.scope,
        table.subject,
        table.percent,
      ],
    }),
    index('alerts_due').on(table.nextAt).where(sql`${table.sentAt} is null`),
    index('alerts_at').on(table.at),
  ],
);

/** Batches that were written: a queue may deliver one twice. */
export const recordBatches = weir.table(
  'record_batches',
  { id: text().primaryKey(), writtenAt: moment().notNull().defaultNow() },
  (table) => [index('record_batches_written_at').on(table.writtenAt)],
);

/** Sums of metrics that no region took. See flush.ts. */
export const metricSums = weir.table(
  'metric_sums',
  { series: text().primaryKey(), amount: whole().notNull(), at: moment().notNull().defaultNow() },
  (table) => [index('metric_sums_at').on(table.at)],
);

/** The last report of each isolate that could report to no region. */
export const isolateReports = weir.table(
  'isolate_reports',
  { isolateId: text().primaryKey(), at: moment().notNull(), report: jsonb().notNull() },
  (table) => [index('isolate_reports_at').on(table.at)],
);
