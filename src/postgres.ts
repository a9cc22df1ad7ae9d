// What a request may ask Postgres: who a caller is that neither memory nor KV knows, and whether it answers at all.
// Loaded when it is first asked.
import { sql } from 'drizzle-orm';
import { findApiKey, findUser } from './rules/book/caller-rows.ts';
import type { CallerRows } from './rules/book/callers.ts';
import { createDatabase, type DatabaseOptions } from './rules/tables/database.ts';

export interface Postgres {
  readonly callers: CallerRows;
  ping(): Promise<unknown>;
}

export function createPostgres(options: DatabaseOptions): Postgres {
  const database = createDatabase(options);
  return {
    callers: { key: (hash) => findApiKey(database, hash), user: (id) => findUser(database, id) },
    ping: () => database.execute(sql`select 1`),
  };
}
