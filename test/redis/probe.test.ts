// The probe finds out whether a server can count: it makes the real call, and leaves nothing behind.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { PROBE_CHECKS } from '../../src/core/counting/counters.ts';
import { hashTagOf } from '../../src/core/counting/keys.ts';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';

let server: RedisServer;
let gateway: UpstashGateway;
let admin: Redis;
beforeAll(async () => {
  server = await startRedisServer({ port: 0, name: 'probe' });
  gateway = await startUpstashGateway({ port: 0, token: 'token', redisUrl: server.url, name: 'probe' });
  admin = new Redis(server.url);
});
afterAll(async () => {
  admin.disconnect();
  await gateway.stop();
  await server.stop();
});
afterEach(async () => {
  await gateway.faults.clear();
  await admin.config('SET', 'maxmemory', '0');
  await admin.replicaof('NO', 'ONE');
});

const probe = () =>
  createUpstashStore(createClient({ url: gateway.url, token: 'token' }))
    .probe(AbortSignal.timeout(5_000))
    .then(
      () => 'fine',
      (error: unknown) => error,
    );

it('the probe always succeeds where the script runs, even after the server has lost the script', async () => {
  expect(await probe()).toBe('fine');
  await gateway.faults.flushScripts();
  for (let i = 0; i < 200; i += 1) expect(await probe()).toBe('fine');
});

it('the probe runs every algorithm, in one slot of a cluster', () => {
  expect(PROBE_CHECKS.map(({ algorithm }) => algorithm)).toEqual(ALGORITHM_IDS);
  expect(new Set(PROBE_CHECKS.map(({ key }) => hashTagOf(key)))).toEqual(new Set(['probe']));
});

it('the probe leaves only its own keys, and only for some seconds', async () => {
  await admin.flushall();
  await probe();
  const keys = await admin.keys('*');
  expect(keys.length).toBeGreaterThan(0);
  for (const key of keys) {
    expect(key).toMatch(/^weir:\{probe\}/);
    const ttlMs = await admin.pttl(key);
    expect(ttlMs).not.toBe(-1);
    expect(ttlMs).toBeLessThanOrEqual(2_000 + IDLE_MS);
  }
});

describe('the probe fails', () => {
  it.each([
    [
      "ERR Error running script: @user_script:12: attempt to call a nil value stack traceback: [G]: in function 'call'",
      'ERR Error running script: @user_script:12: attempt to call a nil value',
    ],
    [
      "ERR @user_script line:2(column:7) near 'local': syntax error",
      "ERR @user_script line:2(column:7) near 'local': syntax error",
    ],
  ])(
    'if the server cannot run the script, with the words of the server: %s',
    async (scriptError, message) => {
      await gateway.faults.set({ scriptError });
      expect(await probe()).toMatchObject({ failure: 'script-failed', message });
    },
  );

  it.each([
    ['is full', () => admin.config('SET', 'maxmemory', '1')],
    ['is read-only', () => admin.replicaof('127.0.0.1', '1')],
    ['answers 500', () => gateway.faults.set({ status: 500 })],
  ])('as unavailable if the server %s', async (_, begin) => {
    await begin();
    expect(await probe()).toMatchObject({ failure: 'unavailable' });
  });
});
