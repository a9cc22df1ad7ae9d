// Once a minute: what is in Postgres is made the rules in force, however it came there. Mostly there is nothing to do.
// Metrics are pushed to those who want that, alerts that a webhook did not take are sent again, and what was kept long
// enough is deleted.
import type { PublishOptions } from './rules/publishing/publish.ts';
import { reconcile } from './rules/publishing/reconcile.ts';

const MINUTE_MS = 60_000;
/** Once a day all is written anew, long before the announcements (three days) and what is in KV (thirty) expire. */
const RENEWAL_MINUTES = 24 * 60;
/** Seldom, because it wakes Postgres: an hour more or less does not matter to what is a month old. */
const DELETE_MINUTES = 60;

export interface CronParts {
  readonly publishing: PublishOptions;
  /** Postgres is asked for changes every so many minutes. */
  readonly databaseCheckMinutes: number;
  /** Left out: nothing is counted, and nothing kept. */
  readonly telemetry?: CronTelemetry | undefined;
}

export interface CronTelemetry {
  /** Some of the denials and usage that are too old. */
  readonly deleteOld: () => Promise<unknown>;
  /** Undefined if nobody wants it. */
  readonly pushMetrics: (() => Promise<void>) | undefined;
  /** Undefined if there is no webhook. */
  readonly sendAlerts?: (() => Promise<unknown>) | undefined;
  readonly onError: (error: unknown) => void;
}

/** Rules come first, and none of the others can keep them from being published. */
export async function runCron(parts: CronParts, scheduledTime: number): Promise<void> {
  const minute = Math.floor(scheduledTime / MINUTE_MS);
  try {
    await publishChanges(parts, minute);
  } finally {
    await pushAndDelete(parts, minute);
  }
}

async function pushAndDelete({ telemetry, databaseCheckMinutes }: CronParts, minute: number): Promise<void> {
  if (!telemetry) return;
  const { pushMetrics, sendAlerts, deleteOld, onError } = telemetry;
  await pushMetrics?.().catch(onError);
  // Only when Postgres is awake anyway.
  if (minute % databaseCheckMinutes === 0) await sendAlerts?.().catch(onError);
  if (minute % DELETE_MINUTES === 0) await deleteOld().catch(onError);
}

async function publishChanges(parts: CronParts, minute: number): Promise<void> {
  const publication = await reconcile(parts.publishing, {
    asksPostgres: minute % parts.databaseCheckMinutes === 0,
    renews: minute % RENEWAL_MINUTES === 0,
  });
  if (!publication) return;
  const { version, changed, ruleCount, rejected } = publication;
  if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
  for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
}
