// Writes batches into Postgres: those that the queue delivers, and those that an isolate sends straight, if there is no
// queue. It also deletes what is old.

import { type SQL, sql } from 'drizzle-orm';
import type { IsolateReport, RegionMetrics } from '../core/ports/region.ts';
import type { Database } from '../rules/tables/repository.ts';
import { type AlertOptions, sendAlerts, type Webhook } from './alerts.ts';
import { countDenials, type QueuedBatch, type QueuedMessage, type RecordBatch } from './flush.ts';

// The queue delivers a failed batch again, after a longer delay each time. A batch that fails too often goes to the
// dead-letter queue, where the consumer counts it and tries it again.

export interface ConsumerOptions extends Pick<StoreOptions, 'sums' | 'onError'> {
  readonly write: (batch: RecordBatch) => Promise<unknown>;
  /** The first delay of a failed batch; each further delay is twice as long. */
  readonly retrySeconds: number;
  /** Flushes the sums now, because an isolate that only consumes has no responses. */
  readonly flush: () => Promise<void>;
}

const LONGEST_DELAY_SECONDS = 3_600;
/** The name of a dead-letter queue ends with this text. */
const DEAD_LETTERS = '-dead';

export function createConsumer({ write, sums, retrySeconds, flush, onError }: ConsumerOptions) {
  const consume = async (message: QueuedMessage) => {
    const { body, attempts } = message;
    try {
      // A message that is not a batch fails however often it is delivered.
      if (isRecordBatch(body)) await write(body);
      else onError(new Error('a message of the queue is not a batch'));
      message.ack();
    } catch (error) {
      onError(error);
      const delaySeconds = Math.min(LONGEST_DELAY_SECONDS, retrySeconds * 2 ** Math.min(20, attempts - 1));
      message.retry({ delaySeconds });
    }
  };

  return async ({ queue, messages }: QueuedBatch): Promise<void> => {
    for (const message of messages) {
      if (queue.endsWith(DEAD_LETTERS) && message.attempts === 1) sums.series('deadLetters').add();
      await consume(message);
    }
    await flush();
  };
}

function isRecordBatch(body: unknown): body is RecordBatch {
  const { id, denials, usage } = (body ?? {}) as Partial<Record<keyof RecordBatch, unknown>>;
  return typeof id === 'string' && Array.isArray(denials) && Array.isArray(usage);
}

export interface StoreOptions extends Omit<AlertOptions, 'webhook'> {
  /** Undefined: Weir sends no alerts. */
  readonly webhook: Webhook | undefined;
  readonly onError: (error: unknown) => void;
}

/**
 * Writes a batch, and then sends its alerts. If the webhook fails, the batch does not fail: it is written, and the cron
 * run sends the alerts later. Returns whether the batch was new.
 */
export async function storeBatch(options: StoreOptions, batch: RecordBatch): Promise<boolean> {
  const { database, webhook, now, sums, onError } = options;
  const { isNew, newAlerts } = await writeBatch(database, batch);
  // A batch of metrics counts nothing: the sums would come back as the next batch.
  if (isNew && !batch.metrics) {
    sums.series('recordsLag').add(Math.max(0, now() - batch.cutAtMs));
    sums.series('denialsWritten').add(countDenials(batch));
  }
  if (!webhook || !batch.crossings?.length) return isNew;
  sums.series('webhookMessages', 'due').add(newAlerts);
  await sendAlerts({ database, webhook, now, sums }).catch(onError);
  return isNew;
}

/** A batch that comes again finds its id and adds nothing. `newAlerts` counts those that no earlier batch had. */
async function writeBatch(
  database: Database,
  { id, denials, usage, crossings = [], requests = [], metrics }: RecordBatch,
): Promise<{ isNew: boolean; newAlerts: number }> {
  const { isolateId = '', sums = [], report = { atMs: 0 } } = metrics ?? {};
  // All rows of a kind are one parameter. The statement writes them in the order of the key, so that two writers never
  // wait for each other in a circle.
  const { rows } = await database.execute<{ fresh: number; noted: number }>(sql`
    with fresh as (
      insert into weir.record_batches (id) values (${id}) on conflict do nothing returning id
    ), denied as (
      insert into weir.denials (at, scope, rule_id, rule_name, subject, tenant_id, user_id, api_key_id, count)
      -- A batch of the version before, which was still in the queue, does not say who called.
      select to_timestamp("atMs" / 1000.0), scope, "ruleId", max("ruleName"), subject, coalesce("tenantId", ''),
        coalesce("userId", ''), coalesce("apiKeyId", ''), sum(count)
      from fresh, jsonb_to_recordset(${JSON.stringify(denials)}::jsonb)
        as denial ("atMs" bigint, scope text, "ruleId" text, "ruleName" text, subject text, "tenantId" text,
                   "userId" text, "apiKeyId" text, count bigint)
      group by "atMs", scope, "ruleId", subject, 6, 7, 8
      order by "atMs", scope, "ruleId", subject, 6, 7, 8
      on conflict (at, scope, rule_id, subject, tenant_id, user_id, api_key_id)
      do update set count = denials.count + excluded.count, rule_name = excluded.rule_name
    ), used as (
      insert into weir.usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost)
      select to_timestamp("atMs" / 1000.0), "tenantId", "userId", "apiKeyId", "ruleId", sum(requests), sum(cost)
      from fresh, jsonb_to_recordset(${JSON.stringify(usage)}::jsonb)
        as used ("atMs" bigint, "tenantId" text, "userId" text, "apiKeyId" text, "ruleId" text,
                 requests bigint, cost bigint)
      group by "atMs", "tenantId", "userId", "apiKeyId", "ruleId"
      order by "atMs", "tenantId", "userId", "apiKeyId", "ruleId"
      on conflict (at, tenant_id, user_id, api_key_id, rule_id)
      do update set requests = usage.requests + excluded.requests, cost = usage.cost + excluded.cost
    ), crossed as (
      insert into weir.alerts (rule_id, window_seconds, window_start, scope, subject, percent, rule_name, "limit", used, at)
      select "ruleId", "windowSeconds", to_timestamp("windowStartMs" / 1000.0), scope, subject, percent, "ruleName",
        "limit", used, to_timestamp("atMs" / 1000.0)
      from fresh, jsonb_to_recordset(${JSON.stringify(crossings)}::jsonb)
        as crossing ("ruleId" text, "windowSeconds" int, "windowStartMs" bigint, scope text, subject text, percent int,
                     "ruleName" text, "limit" bigint, used bigint, "atMs" bigint)
      order by "ruleId", "windowSeconds", "windowStartMs", scope, subject, percent
      on conflict do nothing returning 1
    ), sampled as (
      insert into weir.denied_requests
        (request_id, at, status, code, method, route, region, tenant_id, user_id, api_key_id, rules)
      select "requestId", to_timestamp("atMs" / 1000.0), status, code, method, route, region, "tenantId", "userId",
        "apiKeyId", rules
      from fresh, jsonb_to_recordset(${JSON.stringify(requests)}::jsonb)
        as request ("requestId" text, "atMs" bigint, status int, code text, method text, route text, region text,
                    "tenantId" text, "userId" text, "apiKeyId" text, rules jsonb)
      order by "requestId"
      on conflict do nothing
    ), summed as (
      insert into weir.metric_sums (series, amount)
      select metric ->> 0, sum((metric ->> 1)::bigint)
      from fresh, jsonb_array_elements(${JSON.stringify(sums)}::jsonb) as metric
      group by 1 order by 1
      on conflict (series) do update set amount = metric_sums.amount + excluded.amount, at = now()
    ), reported as (
      insert into weir.isolate_reports (isolate_id, at, report)
      select ${isolateId}, to_timestamp(${report.atMs}::bigint / 1000.0), ${JSON.stringify(report)}::jsonb
      from fresh where ${metrics !== undefined}::boolean
      on conflict (isolate_id) do update set at = excluded.at, report = excluded.report
      where isolate_reports.at <= excluded.at
    )
    select (select count(*) from fresh)::int as fresh, (select count(*) from crossed)::int as noted`);
  return { isNew: rows[0]?.fresh === 1, newAlerts: rows[0]?.noted ?? 0 };
}

// Metrics that no region took stay in Postgres, under a `store` of their own, so no sum is ever counted in two places,
// and none ever decreases.

export type StoredMetrics = Pick<RegionMetrics, 'sums' | 'reports'>;

/** As many reports as are read of a region. */
const MAX_REPORTS = 500;

export async function readStoredMetrics(database: Database): Promise<StoredMetrics> {
  const sums = await database.execute<{ series: string; amount: string }>(
    sql`select series, amount::text as amount from weir.metric_sums`,
  );
  const reports = await database.execute<{ isolate_id: string; report: IsolateReport }>(
    sql`select isolate_id, report from weir.isolate_reports order by at desc limit ${MAX_REPORTS}`,
  );
  return {
    sums: new Map(sums.rows.map(({ series, amount }) => [series, Number(amount)])),
    reports: new Map(reports.rows.map(({ isolate_id, report }) => [isolate_id, report])),
  };
}

// Deletes old records, a few small pieces in each cron run, so that no lock is held for long. After a flood it takes
// several runs.

const DAY_MS = 86_400_000;
/** A queue delivers a batch for at most 14 days, so no batch comes again later. */
const BATCH_DAYS = 15;
/** Long enough for a complaint of yesterday. Queries leave older ones out, because this runs once an hour. */
export const SAMPLE_DAYS = 1;
/** As long as a region keeps its own: see redis/metrics-store.ts. */
const METRICS_DAYS = 35;
const PIECE_ROWS = 5_000;
const PIECES = 40;

export interface RetentionOptions {
  readonly eventsDays: number;
  readonly usageDays: number;
  readonly nowMs: number;
}

/** Returns how many rows of each table were deleted. */
export async function deleteOld(
  database: Database,
  { eventsDays, usageDays, nowMs }: RetentionOptions,
): Promise<Record<string, number>> {
  const deleted: Record<string, number> = {};
  for (const [table, column, days] of [
    ['denials', 'at', eventsDays],
    ['events', 'at', eventsDays],
    ['denied_requests', 'at', SAMPLE_DAYS],
    ['usage', 'at', usageDays],
    ['alerts', 'at', eventsDays],
    ['metric_sums', 'at', METRICS_DAYS],
    ['isolate_reports', 'at', 1],
    ['record_batches', 'written_at', BATCH_DAYS],
  ] as const) {
    const isOld = sql`${sql.raw(column)} < ${new Date(nowMs - days * DAY_MS).toISOString()}`;
    deleted[table] = await deleteInPieces(database, sql.raw(`weir.${table}`), isOld);
  }
  return deleted;
}

async function deleteInPieces(database: Database, table: SQL, isOld: SQL): Promise<number> {
  let deleted = 0;
  for (let piece = 0; piece < PIECES; piece += 1) {
    const { rowCount } = await database.execute(sql`
      delete from ${table}
      where ctid = any (array (select ctid from ${table} where ${isOld} limit ${PIECE_ROWS}))`);
    deleted += rowCount ?? 0;
    if ((rowCount ?? 0) < PIECE_ROWS) break;
  }
  return deleted;
}
