// The cron run, once a minute. It publishes the rules if Postgres has changed, however the change got there. It also
// pushes metrics, sends failed alerts again, and deletes old records. Mostly there is nothing to do.
import type { PublishOptions } from '../rules/publishing/publish.ts';
import { reconcile } from '../rules/publishing/reconcile.ts';

export const MINUTE_MS = 60_000;
/** The cron run writes everything again once a day, long before announcements (3 days) and KV (30 days) expire. */
const RENEWAL_MINUTES = 24 * 60;
/** The cron run deletes rarely, because that wakes Postgres, and an hour does not matter for month-old records. */
const DELETE_MINUTES = 60;

export interface CronParts {
  readonly publishing: PublishOptions;
  /** How often Postgres is asked for changes. */
  readonly databaseCheckMinutes: number;
  /** Undefined: there is no telemetry. */
  readonly telemetry?: CronTelemetry | undefined;
}

export interface CronTelemetry {
  /** Deletes some of the old denials and usage. */
  readonly deleteOld: () => Promise<unknown>;
  /** Undefined if OTLP_URL is not set. */
  readonly pushMetrics: (() => Promise<void>) | undefined;
  /** Undefined if there is no webhook. */
  readonly sendAlerts?: (() => Promise<unknown>) | undefined;
  readonly onError: (error: unknown) => void;
}

/** Publishes rules first, so that a failure of another task cannot prevent it. */
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
