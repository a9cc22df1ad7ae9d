// The isolate's use of Postgres: looks up callers that neither memory nor KV knows, pings it, and stores denials and
// usage if there is no queue. It is loaded on first use.
import { sql } from 'drizzle-orm';
import { findApiKey, findUser } from '../identity/caller-rows.ts';
import { createDatabase } from '../rules/tables/repository.ts';
import type { RecordBatch } from '../telemetry/flush.ts';
import { storeBatch } from '../telemetry/store.ts';
import type { DeploymentParts } from './deployment.ts';

export function createPostgres({ collected, webhook, now, onError, ...parts }: DeploymentParts) {
  const database = createDatabase(parts.database);
  const { sums } = collected;
  return {
    callers: {
      key: (hash: string) => findApiKey(database, hash),
      user: (id: string) => findUser(database, id),
    },
    /** Resolves to whether the batch was new. */
    storeBatch: (batch: RecordBatch) => storeBatch({ database, webhook, now, sums, onError }, batch),
    ping: () => database.execute(sql`select 1`),
  };
}
