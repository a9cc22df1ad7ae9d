// The store goes on when Redis forgets: its scripts (SCRIPT FLUSH), or everything (a restart).
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/counter-store.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/upstash-store.ts';
import { createCheck, next } from './engines.ts';

const HOUR_MS = 3_600_000;

let server: RedisServer;
let gateway: UpstashGateway;
let store: CounterStore;
beforeAll(async () => {
  server = await startRedisServer({ port: 0, name: 'lost-scripts' });
  gateway = await startUpstashGateway({
    port: 0,
    token: 'token',
    redisUrl: server.url,
    name: 'lost-scripts',
  });
  store = createUpstashStore(createClient({ url: gateway.url, token: 'token' }));
});
afterAll(async () => {
  await gateway.stop();
  await server.stop();
});

const signal = () => AbortSignal.timeout(5_000);
const rules = () =>
  ALGORITHM_IDS.map((algorithm) => createCheck({ algorithm, limit: 3, windowMs: 1_000 * HOUR_MS }));

/** What is left of each rule after one more request under all of them. */
async function take(checks: ReturnType<typeof rules>): Promise<number[]> {
  const asked = checks.map((check) => next(check));
  const { outcomes } = await store.run({ operation: 'take', checks: asked }, signal());
  expect(outcomes.map(({ allowed }) => allowed)).toEqual(checks.map(() => true));
  return outcomes.map(({ remaining }) => remaining);
}

it('counts on after the scripts were flushed, in the middle of a history', async () => {
  const checks = rules();
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  await gateway.faults.flushScripts();
  expect(new Set(await take(checks))).toEqual(new Set([1]));
  expect(new Set(await take(checks))).toEqual(new Set([0]));
});

it('starts again from nothing after Redis was restarted, and says so while it is away', async () => {
  const checks = rules();
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  await server.stop();
  await expect(take(checks)).rejects.toThrow(CounterStoreError);
  server = await startRedisServer({ port: server.port, name: 'lost-scripts' });
  await vi.waitFor(() => store.probe(signal()), { timeout: 10_000, interval: 10 });
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  expect(new Set(await take(checks))).toEqual(new Set([1]));
});
