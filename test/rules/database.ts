// A real Postgres with all migrations, behind the Neon gateway, as the Worker reaches it.
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { createDatabase, type Database } from '../../src/rules/tables/database.ts';
import { createFreshDatabase } from '../shared/database.ts';

/**
 * Leaves nothing that anybody has entered or published. Rows and not tables: `truncate` gives each table new files, which
 * takes longer than most tests. The history last, for it tells of what is deleted, too.
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
  /** For `pg`, which then finds Weir's tables by their names alone. The Worker has to name their schema. */
  readonly url: string;
  /** As the Worker has it. */
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
