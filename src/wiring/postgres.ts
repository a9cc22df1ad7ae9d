// The isolate's use of Postgres: looks up callers that neither memory nor KV knows, pings it, and stores denials and
// usage if there is no queue. It is loaded on first use.
import { sql } from 'drizzle-orm';
import { findApiKey, findUser } from '../identity/caller-rows.ts';
import type { CallerRows } from '../identity/directory.ts';
import { createDatabase, type DatabaseOptions } from '../rules/tables/repository.ts';
import type { RecordBatch } from '../telemetry/flush.ts';
import { type StoreOptions, storeBatch } from '../telemetry/store.ts';

export interface Postgres {
  readonly callers: CallerRows;
  /** Whether the batch was new. */
  storeBatch(batch: RecordBatch): Promise<boolean>;
  ping(): Promise<unknown>;
}

export function createPostgres(
  options: DatabaseOptions,
  telemetry: Omit<StoreOptions, 'database'>,
): Postgres {
  const database = createDatabase(options);
  return {
    callers: { key: (hash) => findApiKey(database, hash), user: (id) => findUser(database, id) },
    storeBatch: (batch) => storeBatch({ ...telemetry, database }, batch),
    ping: () => database.execute(sql`select 1`),
  };
}
