// The cron run checks the regions and Postgres. It publishes only if something is wrong or has changed. Unchanged rules
// keep their number.

import { type SQL, sql } from 'drizzle-orm';
import {
  type Announcement,
  formatAnnouncement,
  isSameAnnouncement,
  newestAnnouncement,
  parseAnnouncement,
} from '../../core/ports/region.ts';
import type { Database } from '../tables/repository.ts';
import { lastPublication } from '../tables/tables.ts';
import { LATELY } from './content.ts';
import { IS_UNCONFIRMED } from './placements.ts';
import { configurationOf, type Publication, type PublishOptions, publish } from './publish.ts';

// The record of the last publication, and whether the tables have changed since. One query finds out, so a cron run
// without changes costs next to nothing.

/** A fingerprint of the tables when they were read. */
export interface Mark {
  readonly fingerprint: string;
  /** Changes of callers count from this moment on; the text is Postgres' own. */
  readonly callersSince: string;
}

export interface Look {
  /** Undefined if nothing was ever recorded. */
  readonly recorded: Announcement | undefined;
  /** Whether tables or configuration have changed since, or some region may lack a moved placement. */
  readonly isChanged: boolean;
}

/** Comes first in a transaction, so that everything read later is at least as new as the mark. */
export const selectMark = (database: Database, configured: string) =>
  database.execute<{ fingerprint: string; since: string }>(
    sql`select ${fingerprintOf(LATELY, configured)} as fingerprint, (${LATELY})::text as since`,
  );

/** The cheap look: one query, nothing written. */
export async function lookAt(database: Database, configured: string): Promise<Look> {
  const { rows } = await database.execute<{ announcement: string; state: string }>(sql`
    select announcement, case fingerprint when ${fingerprintOf(sql`callers_since`, configured)}
      then case when ${IS_UNCONFIRMED} then 'untold' else 'same' end else 'changed' end as state
    from ${lastPublication}`);
  const [row] = rows;
  return { recorded: parseAnnouncement(row?.announcement), isChanged: row?.state !== 'same' };
}

/** If two publications race, the newer one stays. */
export async function recordPublication(
  database: Database,
  announcement: Announcement,
  { mark, bytes }: { readonly mark: Mark; readonly bytes: number },
): Promise<void> {
  const { fingerprint, callersSince } = mark;
  await database.execute(sql`
    insert into ${lastPublication} (id, sequence, announcement, fingerprint, callers_since, bytes)
    values (1, ${announcement.sequence}, ${formatAnnouncement(announcement)}, ${fingerprint}, ${callersSince}, ${bytes})
    on conflict (id) do update set sequence = excluded.sequence, announcement = excluded.announcement,
      fingerprint = excluded.fingerprint, callers_since = excluded.callers_since, bytes = excluded.bytes
    where ${lastPublication}.sequence <= excluded.sequence`);
}

/**
 * Covers every published row. A revision is never used twice; the time distinguishes revisions that a restored database
 * uses again. Expired list entries are left out, as in a publication. There are too many callers to look at each, so
 * the query counts their changes in the history. The highest number alone is not enough, because Postgres can commit a
 * lower one later. Old changes do not matter here, because earlier publications cover them.
 */
const fingerprintOf = (
  callersSince: SQL,
  configured: string,
): SQL => sql`md5(concat_ws('|', ${configured}::text,
  ${revisionsIn(sql`weir.rules`)}, ${revisionsIn(sql`weir.tiers`)}, ${revisionsIn(sql`weir.routes`)}, ${revisionsIn(sql`weir.settings`)},
  ${revisionsIn(sql`weir.list_entries where expires_at is null or expires_at > now()`)},
  coalesce((select string_agg(concat(id, placed, before), ',' order by id) from weir.placements
    where id = '*' or before <> '[]'), '-'),
  (select concat(count(*), '/', max(id)) from weir.history
    where at > ${callersSince} and entity in ('api_keys', 'users', 'tenants'))))`;

const revisionsIn = (rows: SQL): SQL => sql`coalesce((
  select string_agg(concat(revision, '/', extract(epoch from updated_at)), ',' order by revision) from ${rows}), '-')`;

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
    regions.map(async ({ pointer }) => {
      try {
        const text = await pointer.read(AbortSignal.timeout(READ_MS));
        return { isRead: true, announcement: parseAnnouncement(text) };
      } catch (error) {
        onError(error);
        return { isRead: false };
      }
    }),
  );
