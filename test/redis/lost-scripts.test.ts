// The store goes on when Redis forgets its scripts (SCRIPT FLUSH), or everything (a restart).
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createCheck, next } from './engines.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

const HOUR_MS = 3_600_000;

let upstash: Upstash;
let gateway: UpstashGateway;
let store: CounterStore;
beforeAll(async () => {
  upstash = await startUpstash('lost-scripts');
  gateway = upstash.gateway;
  store = createUpstashStore(createClient({ url: gateway.url, token: 'token' }));
});
afterAll(async () => {
  await upstash.stop();
});

const signal = () => AbortSignal.timeout(5_000);
const rules = () =>
  ALGORITHM_IDS.map((algorithm) => createCheck({ algorithm, limit: 3, windowMs: 1_000 * HOUR_MS }));

/** What is left of each rule after one more request under all of them. */
async function take(checks: ReturnType<typeof rules>): Promise<number[]> {
  const asked = checks.map((check) => next(check));
  const { outcomes } = await store.take({ checks: asked }, signal());
  expect(outcomes.map(({ allowed }) => allowed)).toEqual(checks.map(() => true));
  return outcomes.map(({ remaining }) => remaining);
}

it('the store goes on counting after the scripts were flushed in the middle of a history', async () => {
  const checks = rules();
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  await gateway.faults.flushScripts();
  expect(new Set(await take(checks))).toEqual(new Set([1]));
  expect(new Set(await take(checks))).toEqual(new Set([0]));
});

it('the store starts from nothing after Redis was restarted, and fails while Redis is down', async () => {
  const checks = rules();
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  await upstash.server.kill();
  await expect(take(checks)).rejects.toThrow(CounterStoreError);
  await upstash.server.start();
  await vi.waitFor(() => store.probe(signal()), { timeout: 30_000, interval: 10 });
  expect(new Set(await take(checks))).toEqual(new Set([2]));
  expect(new Set(await take(checks))).toEqual(new Set([1]));
});
