// The cron run checks the regions and Postgres. It publishes only if something is wrong or has changed. Unchanged rules
// keep their number.

import { type Announcement, isSameAnnouncement, newestAnnouncement } from '../../core/ports/region.ts';
import {
  configurationOf,
  type Publication,
  type PublishOptions,
  publish,
  readAnnouncements,
} from './publish.ts';
import { type Look, lookAt } from './record.ts';

export interface HowToReconcile {
  /** If false, changes by a migration go unnoticed, but Postgres can sleep if nobody else queries it. */
  readonly asksPostgres: boolean;
  /** Writes everything once more, before it expires. */
  readonly renews: boolean;
}

/** Undefined if all was well and nothing was written. */
export async function reconcile(
  options: PublishOptions,
  { asksPostgres, renews }: HowToReconcile,
): Promise<Publication | undefined> {
  const look = () => lookAt(options.database, configurationOf(options));
  const [standing, seen] = await Promise.all([readAnnouncements(options), asksPostgres ? look() : undefined]);
  if (!renews && !isAmiss(standing, seen)) return undefined;
  const { recorded } = seen ?? (await look());
  return publish(options, { again: renews, repairs: { recorded } });
}

function isAmiss(standing: readonly (Announcement | undefined | null)[], seen: Look | undefined): boolean {
  if (seen?.isChanged) return true;
  // Skips regions that are down: nothing can be announced there now. A later run does it.
  const read = standing.filter((announcement) => announcement !== null);
  if (read.length === 0) return false;
  const newest = newestAnnouncement([...read, seen?.recorded]);
  if (!newest || (seen && !isSameAnnouncement(seen.recorded, newest))) return true;
  return read.some((announcement) => !isSameAnnouncement(announcement, newest));
}
