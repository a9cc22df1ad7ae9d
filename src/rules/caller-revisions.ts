// Callers whose tier, tenant or key has changed lately. Isolates and KV may still hold what was known of them
// before; under their new revision nobody has looked them up yet.
import { sql } from 'drizzle-orm';
import * as z from 'zod';
import { versionOf } from '../core/stored-snapshot.ts';
import type { Database } from './database.ts';

/** Longer than anything that is known of a caller is kept in memory or KV. */
export const LATELY = sql`now() - interval '15 minutes'`;
/** Beyond so many, everything known of any caller is forgotten. */
const MOST = 5_000;

export interface CallerRevisions {
  /** Another epoch: forget everybody. */
  readonly epoch: string;
  /** By `key:HASH` or `user:ID`. */
  readonly revisions: Readonly<Record<string, string>>;
}

export const NO_REVISIONS: CallerRevisions = { epoch: '0', revisions: {} };

const revisionsSchema = z.object({ epoch: z.string(), revisions: z.record(z.string(), z.string()) });

export async function decodeRevisions(version: string, text: string): Promise<CallerRevisions | undefined> {
  if ((await versionOf(text)) !== version) return undefined;
  return revisionsSchema.safeParse(JSON.parse(text)).data;
}

/**
 * How many changes there were is part of a revision: one that was recorded earlier can be committed later. From the
 * history, because a deleted key must be forgotten too, and one that now has another hash under the one it
 * had. A tenant's change is one of all its callers.
 */
export const selectRevisions = (database: Database) =>
  database.execute<{ id: string; revision: string }>(sql`
    with recent as (
      select history.id, entity, state ->> 'id' as entity_id, state ->> 'hash' as hash
      from history cross join lateral (values (before), (after)) as states (state)
      where at > ${LATELY} and entity in ('api_keys', 'users', 'tenants') and state is not null
    ), changed (caller, revision) as (
      select 'key:' || hash, id from recent where entity = 'api_keys'
      union all
      select 'user:' || entity_id, id from recent where entity = 'users'
      union all
      select 'key:' || k.hash, r.id from recent r join api_keys k on k.user_id = r.entity_id where r.entity = 'users'
      union all
      select 'user:' || u.id, r.id from recent r join users u on u.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id from recent r join api_keys k on k.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id
      from recent r join users u on u.tenant_id = r.entity_id join api_keys k on k.user_id = u.id
      where r.entity = 'tenants'
    )
    select caller as id, max(revision) || '-' || count(*) as revision
    from changed group by caller order by max(revision) desc limit ${MOST + 1}`);

export function toRevisions(rows: readonly { id: string; revision: string }[]): CallerRevisions {
  if (rows.length > MOST) return { epoch: rows[0]?.revision ?? '0', revisions: {} };
  const sorted = [...rows].sort((a, b) => (a.id < b.id ? -1 : 1));
  return { epoch: '0', revisions: Object.fromEntries(sorted.map(({ id, revision }) => [id, revision])) };
}
