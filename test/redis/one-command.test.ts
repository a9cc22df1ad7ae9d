// A take is sent once, whatever becomes of its answer, because a second one could be charged again.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import type { FaultRequest } from '../../local/upstash-gateway/faults.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createCheck } from './engines.ts';

const LIMIT = 10;
/** Long enough for any retry. */
const SIGNAL_MS = 2_000;

let server: RedisServer;
let gateway: UpstashGateway;
let store: CounterStore;
beforeAll(async () => {
  server = await startRedisServer({ port: 0, name: 'one-command' });
  gateway = await startUpstashGateway({ port: 0, token: 'token', redisUrl: server.url, name: 'one-command' });
  store = createUpstashStore(createClient({ url: gateway.url, token: 'token' }));
});
afterEach(() => gateway.faults.clear());
afterAll(async () => {
  await gateway.stop();
  await server.stop();
});

const run = (operation: 'take' | 'peek', check: Check) =>
  store[operation]({ checks: [check] }, AbortSignal.timeout(SIGNAL_MS));
const charged = async (check: Check) =>
  LIMIT - ((await run('peek', check)).outcomes[0]?.remaining ?? Number.NaN);

/** How many requests a take makes under a fault, and how many units it is charged. */
async function takeUnder(fault: FaultRequest) {
  const check = createCheck({ algorithm: 'fixed-window', limit: LIMIT, windowMs: 3_600_000_000 });
  // From now on the server knows the script.
  await run('peek', check);
  await gateway.faults.set(fault);
  const { requests: before } = await gateway.stats();
  const error = await run('take', check).catch((thrown: unknown) => thrown);
  const { requests } = await gateway.stats();
  await gateway.faults.clear();
  return { error, sent: requests - before, units: await charged(check) };
}

describe('a take sends exactly one command, and is charged at most once,', () => {
  it.each<[string, FaultRequest, number]>([
    ['the answer is lost with the connection', { loseReply: true }, 1],
    ['the answer breaks off', { resetMidReply: true }, 1],
    ['the server answers 500', { status: 500 }, 0],
    ['the server answers 429', { status: 429 }, 0],
    ['the answer is garbage', { garbage: true }, 0],
    ['the answer has another shape', { wrongShape: true }, 0],
    ['the script fails', { scriptError: 'ERR Error running script: @user_script:1: x' }, 0],
  ])('if %s', async (_, fault, units) => {
    const seen = await takeUnder(fault);
    expect(seen).toMatchObject({ sent: 1, units });
    expect(seen.error).toBeInstanceOf(CounterStoreError);
  });
});

it('if the server has lost the script, a take sends its text as well, and is charged once', async () => {
  const check = createCheck({ algorithm: 'fixed-window', limit: LIMIT, windowMs: 3_600_000_000 });
  await gateway.faults.flushScripts();
  const { requests: before } = await gateway.stats();
  await run('take', check);
  expect((await gateway.stats()).requests - before).toBe(2);
  expect(await charged(check)).toBe(1);
});
