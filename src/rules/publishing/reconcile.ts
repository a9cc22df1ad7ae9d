// The cron run checks the regions and Postgres. It publishes only if something is wrong or has changed. Unchanged rules
// keep their number.
import {
  type Announcement,
  isSameAnnouncement,
  newestAnnouncement,
  parseAnnouncement,
} from '../../core/ports/announcement.ts';
import { type Look, lookAt } from './last-publication.ts';
import { configurationOf, type Publication, type PublishOptions, publish } from './publish.ts';

const READ_MS = 500;

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
  const [standing, seen] = await Promise.all([readRegions(options), asksPostgres ? look() : undefined]);
  if (!renews && !isAmiss(standing, seen)) return undefined;
  const { recorded } = seen ?? (await look());
  return publish(options, { again: renews, repairs: { recorded } });
}

/** The announcement in a region; undefined if there is none that this Worker can read. */
type Standing = { readonly isRead: boolean; readonly announcement?: Announcement | undefined };

function isAmiss(standing: readonly Standing[], seen: Look | undefined): boolean {
  if (seen?.isChanged) return true;
  // Skips regions that are down: nothing can be announced there now. A later run does it.
  const read = standing.filter(({ isRead }) => isRead).map(({ announcement }) => announcement);
  if (read.length === 0) return false;
  const newest = newestAnnouncement([...read, seen?.recorded]);
  if (!newest || (seen && !isSameAnnouncement(seen.recorded, newest))) return true;
  return read.some((announcement) => !isSameAnnouncement(announcement, newest));
}

const readRegions = ({ regions, onError }: PublishOptions): Promise<Standing[]> =>
  Promise.all(
    regions.map(async ({ board }) => {
      try {
        const text = await board.read(AbortSignal.timeout(READ_MS));
        return { isRead: true, announcement: parseAnnouncement(text) };
      } catch (error) {
        onError(error);
        return { isRead: false };
      }
    }),
  );
