// The census of a region: which isolates count and for how long, when an isolate asks, and which numbers it believes.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { CENSUS_KEY } from '../../src/core/counting/keys.ts';
import type { IsolateCount } from '../../src/core/ports/region.ts';
import { createCensus } from '../../src/limiter/region-watch.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createIsolateCount } from '../../src/redis/region-keys.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

const KEEP_MS = 150_000;
const MINUTE_MS = 60_000;
const EARLY_MS = 5_000;
const signal = () => AbortSignal.timeout(5_000);

let upstash: Upstash;
let gateway: UpstashGateway;
let client: Client;
let pointer: IsolateCount;
beforeAll(async () => {
  upstash = await startUpstash('census');
  gateway = upstash.gateway;
  client = createClient({ url: gateway.url, token: 'token' });
  pointer = createIsolateCount(client);
});
afterAll(async () => {
  await upstash.stop();
});
beforeEach(async () => {
  await gateway.faults.clear();
  await client.send(signal(), (redis) => redis.flushall());
});

/** The time by the clock of Redis, cut to milliseconds as in the script. */
async function redisNowMs(): Promise<number> {
  const [seconds, micros] = await client.send(signal(), (redis) => redis.time());
  return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
}

const present = (id: string) => pointer.present(id, signal());
const cameAt = (member: string, score: number) =>
  client.send(signal(), (redis) => redis.zadd(CENSUS_KEY, { score, member }));
const isolates = () => client.send(signal(), (redis) => redis.zrange<string[]>(CENSUS_KEY, 0, -1));

describe('the census of a region', () => {
  it('counts every isolate once, however often it reports', async () => {
    expect(await present('a')).toBe(1);
    expect(await present('b')).toBe(2);
    expect(await present('a')).toBe(2);
    expect(await present('c')).toBe(3);
    expect((await isolates()).sort()).toEqual(['a', 'b', 'c']);
  });

  it('forgets isolates that reported longer ago than the keep time, and no others', async () => {
    const nowMs = await redisNowMs();
    await cameAt('one millisecond too long ago', nowMs - KEEP_MS - 1);
    await cameAt('in another century', 0);
    await cameAt('two minutes ago', nowMs - 2 * MINUTE_MS);
    expect(await present('now')).toBe(2);
    expect(await isolates()).toEqual(['two minutes ago', 'now']);
  });

  it('counts an isolate that comes back after a long time', async () => {
    await cameAt('a', (await redisNowMs()) - 10 * KEEP_MS);
    expect(await present('a')).toBe(1);
    expect(await isolates()).toEqual(['a']);
  });

  it('notes by the clock of Redis when an isolate reports, and expires a keep time after the last report', async () => {
    await present('before');
    await client.send(signal(), (redis) => redis.pexpire(CENSUS_KEY, 10 * KEEP_MS));
    const earliestMs = await redisNowMs();
    await present('a');
    const latestMs = await redisNowMs();
    const cameAtMs = Number(await client.send(signal(), (redis) => redis.zscore(CENSUS_KEY, 'a')));
    const expiresAtMs = await client.send(signal(), (redis) =>
      redis.exec<number>(['PEXPIRETIME', CENSUS_KEY]),
    );
    for (const atMs of [cameAtMs, expiresAtMs - KEEP_MS]) {
      expect(atMs).toBeGreaterThanOrEqual(earliestMs);
      expect(atMs).toBeLessThanOrEqual(latestMs);
    }
  });

  it('costs six commands: EVAL, TIME, ZADD, ZREMRANGEBYSCORE, PEXPIRE, ZCARD', async () => {
    for (const id of ['a', 'a', 'b']) {
      const { billed } = await gateway.stats();
      await present(id);
      expect((await gateway.stats()).billed - billed).toBe(6);
    }
  });
});

describe('a report to the census', () => {
  it.each(['wrongShape', 'garbage'] as const)('fails with a bad reply: %s', async (fault) => {
    await gateway.faults.set({ [fault]: true });
    await expect(present('a')).rejects.toMatchObject({ name: 'CounterStoreError', failure: 'bad-reply' });
  });

  it.each([[0], [-1], [1.5], [Number.NaN], ['2'], [null], [[1]], [true]])(
    'fails if the number of isolates is %s',
    async (reply) => {
      const replying = createIsolateCount({ command: async () => reply });
      await expect(replying.present('a', signal())).rejects.toMatchObject({
        name: 'CounterStoreError',
        failure: 'bad-reply',
        message: 'the reply is not a number of isolates',
      });
    },
  );

  it('fails with a timeout if the signal is aborted, before the call or while Redis hangs', async () => {
    const timeout = { name: 'CounterStoreError', failure: 'timeout' };
    await expect(pointer.present('a', AbortSignal.abort())).rejects.toMatchObject(timeout);
    await gateway.faults.set({ hang: true });
    const { requests } = await gateway.stats();
    const controller = new AbortController();
    const isTimeout = expect(pointer.present('a', controller.signal)).rejects.toMatchObject(timeout);
    // Waits until the call hangs in the gateway. A call that arrived after the fault would count.
    await expect.poll(async () => (await gateway.stats()).requests).toBe(requests + 1);
    controller.abort();
    await isTimeout;
    await gateway.faults.clear();
    expect(await isolates()).toEqual([]);
  });
});

describe('the number of isolates that an isolate knows', () => {
  const START_MS = 1_700_000_000_000;

  /** A census that has asked its early questions. */
  const grownUp = () => {
    const census = createCensus({ assumed: 1 });
    for (const earlierMs of [2 * EARLY_MS, EARLY_MS, 0])
      expect(census.isDue(START_MS - earlierMs)).toBe(true);
    return census;
  };

  it('is asked for at once, twice more soon after, then every minute, by one of many requests', () => {
    const census = createCensus({ assumed: 1 });
    let atMs = START_MS;
    for (const waitMs of [0, EARLY_MS, EARLY_MS, MINUTE_MS, MINUTE_MS]) {
      if (waitMs > 0) expect(census.isDue(atMs + waitMs - 1)).toBe(false);
      atMs += waitMs;
      expect([census.isDue(atMs), census.isDue(atMs)]).toEqual([true, false]);
    }
  });

  it('is asked for at once even if the clock starts at zero', () => {
    const census = createCensus({ assumed: 1 });
    expect([census.isDue(0), census.isDue(0)]).toEqual([true, false]);
  });

  it('is asked for a minute after the last question, not after the last answer', () => {
    const census = grownUp();
    census.tell(4);
    expect(census.isDue(START_MS + MINUTE_MS - 1)).toBe(false);
    expect(census.isDue(START_MS + MINUTE_MS)).toBe(true);
  });

  it('is asked for once when the clock has gone back, and every minute from there', () => {
    const census = grownUp();
    const backMs = START_MS - 60 * MINUTE_MS;
    expect(census.isDue(backMs)).toBe(true);
    expect(census.isDue(backMs + MINUTE_MS - 1)).toBe(false);
    expect(census.isDue(backMs + MINUTE_MS)).toBe(true);
  });

  it('is the assumed number until the region reports one, and then the last reported one', () => {
    const census = createCensus({ assumed: 20 });
    expect(census.count()).toBe(20);
    for (const count of [3, 1, 500]) {
      census.tell(count);
      expect(census.count()).toBe(count);
    }
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '2' as never, null as never])(
    'does not change when the region reports %s',
    (count) => {
      const census = createCensus({ assumed: 20 });
      census.tell(count);
      expect(census.count()).toBe(20);
      census.tell(7);
      census.tell(count);
      expect(census.count()).toBe(7);
    },
  );
});
