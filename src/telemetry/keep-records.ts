// Keeps a batch in Postgres, and then tells the webhook of the thresholds in it. A webhook that fails does not make the
// batch fail: it is written, and the cron run tells the webhook later.
import type { MetricSums } from '../core/telemetry/metric-sums.ts';
import type { Database } from '../rules/tables/database.ts';
import { sendAlerts } from './alerts.ts';
import type { RecordBatch } from './record-batch.ts';
import type { Webhook } from './webhook.ts';
import { writeRecords } from './write-records.ts';

export interface KeepOptions {
  readonly database: Database;
  /** Undefined: nobody is told. */
  readonly webhook: Webhook | undefined;
  readonly now: () => number;
  readonly sums: MetricSums;
  readonly onError: (error: unknown) => void;
}

/** Whether it was new. */
export async function keepRecords(
  { database, webhook, now, sums, onError }: KeepOptions,
  batch: RecordBatch,
): Promise<boolean> {
  const { isNew, newAlerts } = await writeRecords(database, batch);
  if (webhook && newAlerts > 0) sums.counter('webhook', 'due').add(newAlerts);
  if (webhook && batch.crossings?.length)
    await sendAlerts({ database, webhook, now, sums }).catch((error) => onError(error));
  return isNew;
}
