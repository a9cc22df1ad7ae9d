// Deletes old records, a few small pieces in each cron run, so that no lock is held for long. After a flood it takes
// several runs.
import { type SQL, sql } from 'drizzle-orm';
import type { Database } from '../rules/tables/database.ts';

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
    // As long as a region keeps its own: see redis/metrics-board.ts.
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
