// Once a minute: what is in Postgres is made the rules in force, however it came there. Mostly there is nothing to do.
import type { PublishOptions } from './rules/publishing/publish.ts';
import { reconcile } from './rules/publishing/reconcile.ts';

const MINUTE_MS = 60_000;
/** Once a day all is written anew, long before the announcements (three days) and what is in KV (thirty) expire. */
const RENEWAL_MINUTES = 24 * 60;

export interface CronParts {
  readonly publishing: PublishOptions;
  /** Postgres is asked for changes every so many minutes. */
  readonly databaseCheckMinutes: number;
}

export async function runCron(parts: CronParts, scheduledTime: number): Promise<void> {
  const minute = Math.floor(scheduledTime / MINUTE_MS);
  const publication = await reconcile(parts.publishing, {
    asksPostgres: minute % parts.databaseCheckMinutes === 0,
    renews: minute % RENEWAL_MINUTES === 0,
  });
  if (!publication) return;
  const { version, changed, ruleCount, rejected } = publication;
  if (changed) console.log(JSON.stringify({ event: 'published', version, ruleCount }));
  for (const row of rejected) console.warn(JSON.stringify({ event: 'rule-rejected', ...row }));
}
