// A real Postgres with all migrations, behind the Neon gateway, as the Worker reaches it.
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { createDatabase, type Database } from '../../src/rules/tables/repository.ts';
import { createFreshDatabase } from '../shared/database.ts';

/**
 * Deletes everything that was entered or published. It deletes rows, because `truncate` gives each table new files,
 * which takes longer than most tests. The history comes last, because it records deletions, too.
 */
export const DELETE_ALL = [
  'api_keys',
  'users',
  'tenants',
  'tiers',
  'rules',
  'list_entries',
  'routes',
  'placements',
  'last_publication',
  'history',
]
  .map((table) => `delete from weir.${table}`)
  .join(';');

export interface TestDatabase extends AsyncDisposable {
  /** For `pg`, which then finds Weir's tables by their names alone. The Worker must name their schema. */
  readonly url: string;
  /** The same as in the Worker. */
  readonly database: Database;
  stopPostgres(): Promise<void>;
}

export async function startDatabase(): Promise<TestDatabase> {
  await using cleanup = new AsyncDisposableStack();
  const postgres = cleanup.use(await createFreshDatabase());
  const neon = await startNeonGateway({ port: 0, databaseUrl: postgres.url });
  cleanup.defer(() => neon.stop());
  const owned = cleanup.move();
  return {
    url: `${postgres.url}?options=-c%20search_path%3Dweir`,
    database: createDatabase({ url: postgres.url, httpEndpoint: neon.fetchEndpoint }),
    stopPostgres: () => postgres.stop(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
