// What a cron run does: one look at the regions and at Postgres. Only if something is not as it should be, what is in
// Postgres is published; and if the rules turn out to be the same, under the number that they have.
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
  /** Without it, a change by a migration is not noticed; and Postgres, if nobody else asks it, can sleep. */
  readonly asksPostgres: boolean;
  /** Write everything once more, before it expires. */
  readonly renews: boolean;
}

/** Undefined: everything was as it should be, and nothing was written. */
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

/** What stands in a region: undefined if nothing that is understood does. */
type Standing = { readonly isRead: boolean; readonly announcement?: Announcement | undefined };

function isAmiss(standing: readonly Standing[], seen: Look | undefined): boolean {
  if (seen?.isChanged) return true;
  // A region that cannot be read cannot be told either; it is, once it can.
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
