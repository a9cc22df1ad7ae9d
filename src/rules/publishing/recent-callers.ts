// Callers whose tier, tenant or key has changed lately, from Postgres.
import { sql } from 'drizzle-orm';
import type { CallerRevisions } from '../book/caller-revisions.ts';
import type { Database } from '../tables/database.ts';

/** Longer than memory or KV keep a record of a caller. */
export const LATELY = sql`now() - interval '15 minutes'`;
/** With more changes than this, isolates forget all callers. */
const MOST = 5_000;

/**
 * A revision includes the number of changes, because a change with a lower number can be committed later. Revisions
 * come from the history, because isolates must also forget a deleted key, and a key with a new hash under its old one.
 * A change of a tenant is a change of all its callers.
 */
export const selectRevisions = (database: Database) =>
  database.execute<{ id: string; revision: string }>(sql`
    with recent as (
      select history.id, entity, state ->> 'id' as entity_id, state ->> 'hash' as hash
      from weir.history cross join lateral (values (before), (after)) as states (state)
      where at > ${LATELY} and entity in ('api_keys', 'users', 'tenants') and state is not null
    ), changed (caller, revision) as (
      select 'key:' || hash, id from recent where entity = 'api_keys'
      union all
      select 'user:' || entity_id, id from recent where entity = 'users'
      union all
      select 'key:' || k.hash, r.id from recent r join weir.api_keys k on k.user_id = r.entity_id where r.entity = 'users'
      union all
      select 'user:' || u.id, r.id from recent r join weir.users u on u.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id from recent r join weir.api_keys k on k.tenant_id = r.entity_id where r.entity = 'tenants'
      union all
      select 'key:' || k.hash, r.id
      from recent r join weir.users u on u.tenant_id = r.entity_id join weir.api_keys k on k.user_id = u.id
      where r.entity = 'tenants'
    )
    select caller as id, max(revision) || '-' || count(*) as revision
    from changed group by caller order by max(revision) desc limit ${MOST + 1}`);

export function toRevisions(rows: readonly { id: string; revision: string }[]): CallerRevisions {
  if (rows.length > MOST) return { epoch: rows[0]?.revision ?? '0', revisions: {} };
  const sorted = [...rows].sort((a, b) => (a.id < b.id ? -1 : 1));
  return { epoch: '0', revisions: Object.fromEntries(sorted.map(({ id, revision }) => [id, revision])) };
}
