// Sessions that ended by logging out. Weir keeps them in Postgres and not in KV, because KV caches missing keys: a
// copied cookie would work for another minute or more. The gateway never reads them.
import { sql } from 'drizzle-orm';
import { createBoundedCache } from '../core/bounded-cache.ts';
import { withDeadline } from '../rules/book/with-deadline.ts';
import type { Database } from '../rules/tables/database.ts';

export interface EndedSessions {
  /** Rejects if Postgres could not store it. */
  end(id: string, expiresAtMs: number): Promise<void>;
  /** Undefined: not known, because Postgres does not answer. */
  isEnded(id: string): Promise<boolean | undefined>;
}

/** A database that slept needs a few hundred milliseconds for its first answer. */
const DEADLINE_MS = 2_000;
/** The most sessions in memory, which are used while Postgres is down. */
const MAX_KNOWN = 1_000;

export interface EndedSessionsOptions {
  readonly database: Database;
  readonly now: () => number;
  readonly deadlineMs?: number;
}

export function createEndedSessions(options: EndedSessionsOptions): EndedSessions {
  const { database, now, deadlineMs = DEADLINE_MS } = options;
  const known = createBoundedCache<true>(MAX_KNOWN);
  const inTime = <T>(work: PromiseLike<T>) => withDeadline(AbortSignal.timeout(deadlineMs), work);

  return {
    async end(id, expiresAtMs) {
      known.set(id, true, expiresAtMs);
      // Also deletes expired rows, so that no other job has to.
      await inTime(
        database.execute(sql`
          with over as (delete from weir.ended_sessions where expires_at <= ${toMoment(now())})
          insert into weir.ended_sessions (id, expires_at) values (${id}, ${toMoment(expiresAtMs)})
          on conflict do nothing`),
      );
    },

    async isEnded(id) {
      if (known.get(id, now())) return true;
      try {
        const query = sql`select 1 from weir.ended_sessions where id = ${id}`;
        const { rows } = await inTime(database.execute(query));
        return rows.length > 0;
      } catch {
        return undefined;
      }
    },
  };
}

const toMoment = (ms: number) => new Date(ms).toISOString();
