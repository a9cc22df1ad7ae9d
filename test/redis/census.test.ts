// The census of a region: which isolates count and for how long, when an isolate asks, and which numbers it believes.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { CENSUS_KEY } from '../../src/core/counting/keys.ts';
import { type Census, createCensus } from '../../src/core/regions/census.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { presentTo } from '../../src/redis/region-keys.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

const KEEP_MS = 150_000;
const MINUTE_MS = 60_000;
const EARLY_MS = 5_000;
/** No region would report this. */
const UNKNOWN = 1_000_000;
const signal = () => AbortSignal.timeout(5_000);

let upstash: Upstash;
let gateway: UpstashGateway;
let client: Client;
beforeAll(async () => {
  upstash = await startUpstash('census');
  gateway = upstash.gateway;
  client = createClient({ url: gateway.url, token: 'token' });
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

/** What an isolate without an earlier report learns. */
async function present(id: string, abort = signal()): Promise<number> {
  const census = createCensus({ assumed: UNKNOWN, present: presentTo(client) });
  await census.report(id, abort);
  return census.count();
}
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

  it('fails with a timeout if the signal is aborted, before the call or while Redis hangs', async () => {
    const timeout = { name: 'CounterStoreError', failure: 'timeout' };
    await expect(present('a', AbortSignal.abort())).rejects.toMatchObject(timeout);
    await gateway.faults.set({ hang: true });
    const { requests } = await gateway.stats();
    const controller = new AbortController();
    const isTimeout = expect(present('a', controller.signal)).rejects.toMatchObject(timeout);
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

  const fresh = (present: () => Promise<unknown> = async () => 4): Census =>
    createCensus({ assumed: 20, present });
  const report = (census: Census) => census.report('a', signal());

  /** A census that has asked its early questions. */
  const grownUp = () => {
    const census = fresh();
    for (const earlierMs of [2 * EARLY_MS, EARLY_MS, 0])
      expect(census.isDue(START_MS - earlierMs)).toBe(true);
    return census;
  };

  it('is asked for at once, twice more soon after, then every minute, by one of many requests', () => {
    const census = fresh();
    let atMs = START_MS;
    for (const waitMs of [0, EARLY_MS, EARLY_MS, MINUTE_MS, MINUTE_MS]) {
      if (waitMs > 0) expect(census.isDue(atMs + waitMs - 1)).toBe(false);
      atMs += waitMs;
      expect([census.isDue(atMs), census.isDue(atMs)]).toEqual([true, false]);
    }
  });

  it('is asked for at once even if the clock starts at zero', () => {
    const census = fresh();
    expect([census.isDue(0), census.isDue(0)]).toEqual([true, false]);
  });

  it('is asked for a minute after the last question, not after the last answer', async () => {
    const census = grownUp();
    await report(census);
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

  it('is the assumed number until the region reports one, and then the last reported one', async () => {
    const replies = [3, 1, 500];
    const census = fresh(async () => replies[0]);
    expect(census.count()).toBe(20);
    for (; replies.length > 0; replies.shift()) {
      await report(census);
      expect(census.count()).toBe(replies[0]);
    }
  });

  it.each([[0], [-1], [1.5], [Number.NaN], [Number.POSITIVE_INFINITY], ['2'], [null], [[1]], [true]])(
    'does not change when the region reports %s',
    async (bad) => {
      const replies: unknown[] = [bad, 7, bad];
      const census = fresh(async () => replies.shift());
      const counts: number[] = [];
      for (let i = 0; i < 3; i += 1) {
        await report(census);
        counts.push(census.count());
      }
      expect(counts).toEqual([20, 7, 7]);
    },
  );

  it('does not change when the region does not answer', async () => {
    const census = fresh(() => Promise.reject(new Error('no answer')));
    await expect(report(census)).rejects.toThrow('no answer');
    expect(census.count()).toBe(20);
  });
});
