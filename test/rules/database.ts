// A real Postgres with all migrations, behind the Neon gateway, as the Worker reaches it.
import { applyMigrations } from '../../local/migrations.ts';
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { startPostgres } from '../../local/postgres.ts';
import { createDatabase, type Database } from '../../src/rules/database.ts';

export interface TestDatabase extends AsyncDisposable {
  /** For `pg`. */
  readonly url: string;
  /** As the Worker has it. */
  readonly database: Database;
  stopPostgres(): Promise<void>;
}

export async function startDatabase(): Promise<TestDatabase> {
  await using cleanup = new AsyncDisposableStack();
  const postgres = await startPostgres({ port: 0, fresh: false });
  cleanup.defer(() => postgres.stop());
  const neon = await startNeonGateway({ port: 0, databaseUrl: postgres.url });
  cleanup.defer(() => neon.stop());
  await applyMigrations(postgres.url);
  const owned = cleanup.move();
  return {
    url: postgres.url,
    database: createDatabase({ url: postgres.url, httpEndpoint: neon.fetchEndpoint }),
    stopPostgres: () => postgres.stop(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
