// Announces the rules of a database in the regions before the Worker starts, so that its very first request finds them.
// Import `lua-text.ts` first.

import { createClient } from '../src/redis/client.ts';
import { createUpstashStore } from '../src/redis/counter-store.ts';
import { createRulesPointer } from '../src/redis/region-keys.ts';
import { publish } from '../src/rules/publishing/publish.ts';
import { createRuleReader } from '../src/rules/publishing/rule-reader.ts';
import { createDatabase } from '../src/rules/tables/repository.ts';
import { DEMO_BINDING } from './demo-worker/miniflare.ts';
import { StackError } from './ports.ts';
import type { LocalRegion } from './regions.ts';
import type { Stack } from './stack.ts';

const now = () => Date.now();

/** KV belongs to the Worker, which fills it with its own first publication. */
const NO_KV = { get: async () => null, put: async () => {} };

export async function publishToRegions(
  stack: Pick<Stack, 'regions' | 'databaseUrl' | 'neon'>,
): Promise<void> {
  const database = createDatabase({ url: stack.databaseUrl, httpEndpoint: stack.neon.fetchEndpoint });
  try {
    await publish({
      database,
      // The Worker of `npm run dev` allows private origins, too.
      reader: createRuleReader(database, {
        now,
        origins: { allowsPrivate: true, allowsPlainHttp: true, services: [DEMO_BINDING] },
      }),
      now,
      kv: NO_KV,
      regions: stack.regions.map(toPublished),
      // If a region was not told, the Worker's own publication tells it, and reports the failure.
      onError: () => {},
    });
  } catch (error) {
    throw new StackError(`the rules could not be published: ${(error as Error).message.split('\n')[0]}`);
  }
}

function toPublished({ name, share, gateway }: LocalRegion) {
  const client = createClient({ url: gateway.url, token: gateway.token });
  return { name, share, pointer: createRulesPointer(client), store: createUpstashStore(client) };
}
