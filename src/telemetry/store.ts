// Writes a batch to Postgres, and then sends its thresholds to the webhook. If the webhook fails, the batch does not
// fail: it is written, and the cron run sends the thresholds later.

import { type SQL, sql } from 'drizzle-orm';
import type { IsolateReport, RegionMetrics } from '../core/ports/region.ts';
import type { MetricSums } from '../core/telemetry/metrics.ts';
import type { Database } from '../rules/tables/repository.ts';
import { sendAlerts, type Webhook } from './alerts.ts';
import type { MetricsRecord, RecordBatch } from './flush.ts';

// Writes a batch of denials and usage to Postgres with one statement. A batch that comes again finds its id and adds
// nothing.

export interface Written {
  /** False: the batch came before, and nothing was added. */
  readonly isNew: boolean;
  /** The number of thresholds that no earlier batch had. */
  readonly newAlerts: number;
}

export async function writeRecords(database: Database, batch: RecordBatch): Promise<Written> {
  // All rows of a kind are one parameter. The statement writes them in the order of the key, so that two writers never
  // wait for each other in a circle.
  const { rows } = await database.execute<{ fresh: number; noted: number }>(sql`
    with fresh as (
      insert into weir.record_batches (id) values (${batch.id}) on conflict do nothing returning id
    ), denied as (
      insert into weir.events (at, scope, rule_id, rule_name, subject, count)
      select to_timestamp("atMs" / 1000.0), scope, "ruleId", max("ruleName"), subject, sum(count)
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.denials)}::jsonb)
        as denial ("atMs" bigint, scope text, "ruleId" text, "ruleName" text, subject text, count bigint)
      group by "atMs", scope, "ruleId", subject
      order by "atMs", scope, "ruleId", subject
      on conflict (at, scope, rule_id, subject)
      do update set count = events.count + excluded.count, rule_name = excluded.rule_name
    ), used as (
      insert into weir.usage (at, tenant_id, user_id, api_key_id, rule_id, requests, cost)
      select to_timestamp("atMs" / 1000.0), "tenantId", "userId", "apiKeyId", "ruleId", sum(requests), sum(cost)
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.usage)}::jsonb)
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
      from fresh, jsonb_to_recordset(${JSON.stringify(batch.crossings ?? [])}::jsonb)
        as crossing ("ruleId" text, "windowSeconds" int, "windowStartMs" bigint, scope text, subject text, percent int,
                     "ruleName" text, "limit" bigint, used bigint, "atMs" bigint)
      order by "ruleId", "windowSeconds", "windowStartMs", scope, subject, percent
      on conflict do nothing returning 1
    )
    select (select count(*) from fresh)::int as fresh, (select count(*) from crossed)::int as noted`);
  return { isNew: rows[0]?.fresh === 1, newAlerts: rows[0]?.noted ?? 0 };
}

// Metrics in Postgres: sums that isolates could hand over to no region. They stay there under a `store` of their own, so
// no sum is ever counted in two places, and none ever decreases.

/** No region has this name, because no name of a region holds such a character. */
export const POSTGRES_STORE = '_postgres';

/** Returns whether the batch was new. A batch that comes again adds nothing. */
export async function writeMetrics(
  database: Database,
  { id, metrics: { isolateId, sums, report } }: RecordBatch & { readonly metrics: MetricsRecord },
): Promise<boolean> {
  const rows = sums.map(([series, amount]) => ({ series, amount }));
  // In the order of the key, so that two writers never wait for each other in a circle.
  const { rows: written } = await database.execute<{ fresh: number }>(sql`
    with fresh as (
      insert into weir.record_batches (id) values (${id}) on conflict do nothing returning id
    ), summed as (
      insert into weir.metric_sums (series, amount)
      select series, sum(amount) from fresh, jsonb_to_recordset(${JSON.stringify(rows)}::jsonb)
        as row (series text, amount bigint)
      group by series order by series
      on conflict (series) do update set amount = metric_sums.amount + excluded.amount, at = now()
    ), reported as (
      insert into weir.isolate_reports (isolate_id, at, report)
      select ${isolateId}, to_timestamp(${report.atMs}::bigint / 1000.0), ${JSON.stringify(report)}::jsonb from fresh
      on conflict (isolate_id) do update set at = excluded.at, report = excluded.report
      where isolate_reports.at <= excluded.at
    )
    select count(*)::int as fresh from fresh`);
  return written[0]?.fresh === 1;
}

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

export type StoredMetrics = Pick<RegionMetrics, 'sums' | 'reports'>;

export interface KeepOptions {
  readonly database: Database;
  /** Undefined: Weir sends no alerts. */
  readonly webhook: Webhook | undefined;
  readonly now: () => number;
  readonly sums: MetricSums;
  readonly onError: (error: unknown) => void;
}

/** Returns whether the batch was new. */
export async function keepRecords(
  { database, webhook, now, sums, onError }: KeepOptions,
  batch: RecordBatch,
): Promise<boolean> {
  const { metrics } = batch;
  if (metrics) return writeMetrics(database, { ...batch, metrics });
  const { isNew, newAlerts } = await writeRecords(database, batch);
  if (webhook && newAlerts > 0) sums.counter('webhook', 'due').add(newAlerts);
  if (webhook && batch.crossings?.length)
    await sendAlerts({ database, webhook, now, sums }).catch((error) => onError(error));
  return isNew;
}

// Deletes old records, a few small pieces in each cron run, so that no lock is held for long. After a flood it takes
// several runs.

const DAY_MS = 86_400_000;
/** A queue delivers a batch for at most 14 days, so no batch comes again later. */
const BATCH_DAYS = 15;
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
): Promise<Record<'events' | 'usage' | 'alerts' | 'batches' | 'metrics' | 'reports', number>> {
  const before = (days: number) => new Date(nowMs - days * DAY_MS).toISOString();
  return {
    events: await inPieces(database, sql`weir.events`, sql`at < ${before(eventsDays)}`),
    usage: await inPieces(database, sql`weir.usage`, sql`at < ${before(usageDays)}`),
    alerts: await inPieces(database, sql`weir.alerts`, sql`at < ${before(eventsDays)}`),
    // As long as a region keeps its own: see redis/region-keys.ts.
    metrics: await inPieces(database, sql`weir.metric_sums`, sql`at < ${before(METRICS_DAYS)}`),
    reports: await inPieces(database, sql`weir.isolate_reports`, sql`at < ${before(1)}`),
    batches: await inPieces(database, sql`weir.record_batches`, sql`written_at < ${before(BATCH_DAYS)}`),
  };
}

async function inPieces(database: Database, table: SQL, isOld: SQL): Promise<number> {
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
