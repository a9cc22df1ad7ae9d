// The sums of a region: what isolates add, once for each batch, what that costs, and how they are read.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { METRICS_KEY, reportKey } from '../../src/core/counting/keys.ts';
import type { MetricsBatch, MetricsStore } from '../../src/core/ports/region.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createMetricsStore } from '../../src/redis/metrics-store.ts';
import { presentTo } from '../../src/redis/region-keys.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

const DAY_MS = 86_400_000;
const signal = () => AbortSignal.timeout(5_000);
const report = { atMs: 1_800_000_000_000, breakers: { us: 'closed' }, rulesAgeMs: 0 };

let upstash: Upstash;
let client: Client;
let pointer: MetricsStore;
beforeAll(async () => {
  upstash = await startUpstash('metrics');
  client = createClient({ url: upstash.gateway.url, token: 'token' });
  pointer = createMetricsStore(client);
});
afterAll(() => upstash.stop());
beforeEach(() => client.send(signal(), (redis) => redis.flushall()));

const batchOf = (number: number, sums: MetricsBatch['sums'], changes: Partial<MetricsBatch> = {}) => ({
  isolateId: 'a',
  number,
  sums,
  report,
  ...changes,
});
const hand = (batch: MetricsBatch) => pointer.flush(batch, signal());
const sums = async () => Object.fromEntries((await pointer.read(signal())).sums);
const billed = async (work: () => Promise<unknown>) => {
  const before = (await upstash.gateway.stats()).billed;
  await work();
  return (await upstash.gateway.stats()).billed - before;
};

describe('the sums of a region', () => {
  it('add up all isolates and batches', async () => {
    await hand(batchOf(1, [['checks\tr\tdenied', 2]]));
    await hand(
      batchOf(2, [
        ['checks\tr\tdenied', 3],
        ['billedCommands\tus', 4],
      ]),
    );
    await hand(batchOf(1, [['checks\tr\tdenied', 10]], { isolateId: 'b' }));
    expect(await sums()).toMatchObject({ 'checks\tr\tdenied': 15, 'billedCommands\tus': 4 });
  });

  it('include a batch once, even if it comes twice', async () => {
    const batch = batchOf(7, [['billedCommands\tus', 5]]);
    await hand(batch);
    await hand(batch);
    expect(await sums()).toMatchObject({ 'billedCommands\tus': 5 });
    await hand({ ...batch, number: 8 });
    expect(await sums()).toMatchObject({ 'billedCommands\tus': 10 });
  });

  it('include a batch that could not be added at first', async () => {
    await client.send(signal(), (redis) => redis.rpush(METRICS_KEY, 'of another type'));
    const batch = batchOf(7, [['billedCommands\tus', 5]]);
    await expect(hand(batch)).rejects.toThrow();
    await client.send(signal(), (redis) => redis.del(METRICS_KEY));
    await hand(batch);
    expect(await sums()).toMatchObject({ 'billedCommands\tus': 5 });
  });

  it('stay exact beyond the 14 digits that Lua writes by itself', async () => {
    await hand(batchOf(1, [['decision\tsum', 9_007_199_254_740_000]]));
    await hand(batchOf(2, [['decision\tsum', 991]]));
    expect(await sums()).toMatchObject({ 'decision\tsum': 9_007_199_254_740_991 });
  });

  it('accept two hundred series in one batch', async () => {
    const many = Array.from({ length: 200 }, (_, i) => [`checks\trule ${i}\tdenied`, i + 1] as const);
    expect(await hand(batchOf(1, many))).toEqual([]);
    expect(await sums()).toMatchObject(Object.fromEntries(many));
  });

  it('cost four commands: EVAL, SET, HMGET, HSET; and one more for new names', async () => {
    await hand(
      batchOf(1, [
        ['billedCommands\tus', 1],
        ['checks\tr\tdenied', 1],
      ]),
    );
    expect(
      await billed(() =>
        hand(
          batchOf(2, [
            ['billedCommands\tus', 1],
            ['checks\tr\tdenied', 1],
          ]),
        ),
      ),
    ).toBe(4);
    expect(await billed(() => hand(batchOf(3, [['checks\tnew\tdenied', 1]])))).toBe(5);
  });

  it('refuse new rule names once there are five thousand series, and accept everything else', async () => {
    const fields = Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`checks\tr${i}\tdenied`, 1]));
    await client.send(signal(), (redis) => redis.hset(METRICS_KEY, fields));
    const known = ['checks\tr1\tdenied', 1] as const;
    const fresh = ['checks\tnew\tdenied', 3] as const;
    const other = ['checks\tother\tdenied', 1] as const;
    expect(await hand(batchOf(1, [fresh, known, other, ['fallback\tcap\ttimeout', 1]]))).toEqual([fresh]);
    expect(await sums()).toMatchObject({ 'checks\tr1\tdenied': 2, 'checks\tother\tdenied': 1 });
    expect(await sums()).not.toHaveProperty('checks\tnew\tdenied');
  });

  it('are kept for 35 days after the last day on which something was added', async () => {
    const ttl = () => client.send(signal(), (redis) => redis.pttl(METRICS_KEY));
    await hand(batchOf(1, [['billedCommands\tus', 1]]));
    expect(await ttl()).toBeGreaterThan(34 * DAY_MS);
    await client.send(signal(), (redis) => redis.pexpire(METRICS_KEY, DAY_MS));
    const later = (ms: number) => ({ report: { ...report, atMs: report.atMs + ms } });
    await hand(batchOf(2, [['billedCommands\tus', 1]], later(DAY_MS - 1)));
    expect(await ttl()).toBeLessThanOrEqual(DAY_MS);
    await hand(batchOf(3, [['billedCommands\tus', 1]], later(DAY_MS)));
    expect(await ttl()).toBeGreaterThan(34 * DAY_MS);
    expect(await client.send(signal(), (redis) => redis.pttl(reportKey('a')))).toBeGreaterThan(0);
  });
});

describe('a reader of the sums', () => {
  it('gets the last report of each isolate in the census', async () => {
    for (const id of ['a', 'b']) await presentTo(client)(id, signal());
    await hand(batchOf(1, [['billedCommands\tus', 1]]));
    const told = { ...report, breakers: { us: 'open' }, rulesAgeMs: 5_000 };
    await hand(batchOf(2, [['billedCommands\tus', 1]], { report: told }));
    const { reports, isolateCount } = await pointer.read(signal());
    expect(isolateCount).toBe(2);
    expect([...reports]).toEqual([['a', told]]);
  });

  it('finds nothing if nothing was handed over', async () => {
    const { sums: none, isolateCount, announced } = await pointer.read(signal());
    expect([none.size, isolateCount, announced]).toEqual([0, 0, undefined]);
  });
});
