// Metrics in Postgres: sums that isolates could hand over to no region. They stay there under a `store` of their own, so
// no sum is ever counted in two places, and none ever decreases.
import { sql } from 'drizzle-orm';
import type { IsolateReport, RegionMetrics } from '../core/ports/metrics-board.ts';
import type { Database } from '../rules/tables/database.ts';
import type { MetricsRecord, RecordBatch } from './record-batch.ts';

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
