// A whole Weir for one test file: its own regions and isolates, on the bundle and the PostgreSQL that all files share.
import { inject } from 'vitest';
import { startWeir as start, type Weir, type WeirParts } from '../../local/weir.ts';
import { createFreshDatabase } from './database.ts';
import { createSharedParts } from './parts.ts';

export async function startWeir(
  variables: Record<string, string> = {},
  options: Pick<WeirParts, 'isolates' | 'queue' | 'queueRetries' | 'hasPage'> = {},
): Promise<Weir> {
  await using cleanup = new AsyncDisposableStack();
  const postgres = cleanup.use(await createFreshDatabase());
  const bundle = await createSharedParts(inject('sharedParts')).worker();
  const weir = cleanup.use(await start(variables, { databaseUrl: postgres.url, bundle, ...options }));
  const owned = cleanup.move();
  return {
    ...weir,
    stack: { ...weir.stack, stopPostgres: () => postgres.stop() },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
