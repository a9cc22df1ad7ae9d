// The record of the last publication, and whether the tables have changed since. One query finds out, so a cron run
// without changes costs next to nothing.

import { type SQL, sql } from 'drizzle-orm';
import { type Announcement, formatAnnouncement, parseAnnouncement } from '../../core/ports/region.ts';
import type { Database } from '../tables/repository.ts';
import { lastPublication } from '../tables/tables.ts';
import { LATELY } from './content.ts';
import { IS_UNCONFIRMED } from './placements.ts';

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
    where at > ${callersSince} and entity in ('api_keys', 'users', 'tenants', 'callers'))))`;

const revisionsIn = (rows: SQL): SQL => sql`coalesce((
  select string_agg(concat(revision, '/', extract(epoch from updated_at)), ',' order by revision) from ${rows}), '-')`;
