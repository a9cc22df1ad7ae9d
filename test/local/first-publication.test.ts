import { afterAll, beforeAll, expect, it } from 'vitest';
import { seedDemoSet } from '../../local/demo-set.ts';
import { publishToRegions } from '../../local/first-publication.ts';
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { startRegions } from '../../local/regions.ts';
import { createClient } from '../../src/redis/client.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import { createSnapshotSource } from '../../src/rules/edge/snapshot-source.ts';
import { createFreshDatabase } from '../shared/database.ts';

const cleanup = new AsyncDisposableStack();
let stack: Parameters<typeof publishToRegions>[0];
beforeAll(async () => {
  const postgres = cleanup.use(await createFreshDatabase());
  const neon = await startNeonGateway({ port: 0, databaseUrl: postgres.url });
  cleanup.defer(() => neon.stop());
  const regions = await startRegions({ redisPort: 0, upstashPort: 0 }, cleanup);
  stack = { regions, databaseUrl: postgres.url, neon };
});
afterAll(() => cleanup.disposeAsync());

/** Like an isolate that has just started, with an empty KV. */
async function rulesIn(region: (typeof stack.regions)[number]) {
  const kv = { get: async () => null, put: async () => {} };
  const source = createSnapshotSource({ kv, now: Date.now, onError: () => {} });
  await source.start(createRulesPointer(createClient(region.gateway)));
  return source.current()?.ruleCount;
}

it('an isolate that starts with an empty KV finds the rules in every region', async () => {
  for (const region of stack.regions) expect(await rulesIn(region)).toBeUndefined();
  await seedDemoSet(stack.databaseUrl);
  await publishToRegions(stack);
  for (const region of stack.regions) await expect.poll(() => rulesIn(region)).toBe(4);
});

it('a failed publication says in one line why it failed', async () => {
  const gone = { ...stack, neon: { ...stack.neon, fetchEndpoint: 'http://127.0.0.1:1/sql' } };
  await expect(publishToRegions(gone)).rejects.toThrow(/^the rules could not be published: .+$/);
});
