// Writes a batch to Postgres, and then sends its thresholds to the webhook. If the webhook fails, the batch does not
// fail: it is written, and the cron run sends the thresholds later.
import type { MetricSums } from '../core/telemetry/metric-sums.ts';
import type { Database } from '../rules/tables/database.ts';
import { sendAlerts } from './alerts.ts';
import type { RecordBatch } from './record-batch.ts';
import { writeMetrics } from './stored-metrics.ts';
import type { Webhook } from './webhook.ts';
import { writeRecords } from './write-records.ts';

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
