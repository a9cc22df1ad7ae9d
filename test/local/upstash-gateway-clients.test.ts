// The unmodified clients of Upstash cannot tell the gateway from Upstash.
import { MultiRegionRatelimit, Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { FLAG, type Harness, startHarness, TOKEN } from './upstash-gateway-harness.ts';

let regions: [Harness, Harness, Harness];
beforeAll(async () => {
  regions = await Promise.all([startHarness(), startHarness(), startHarness()]);
});
afterAll(() => Promise.all(regions.map((harness) => harness.stop())));
beforeEach(() => Promise.all(regions.map((harness) => harness.send('FLUSHALL'))));

const bare = { enableAutoPipelining: false, retry: { retries: 0 } };
const text = {
  ...bare,
  automaticDeserialization: false,
  responseEncoding: false as const,
  enableTelemetry: false,
};

describe.each([
  ['as it comes', {}],
  ['without automatic pipelines and retries', bare],
])('@upstash/redis %s', (_name, options) => {
  let redis: Redis;
  beforeAll(() => {
    redis = new Redis({ url: regions[0].gateway.url, token: TOKEN, ...options });
  });

  test('sets and gets text, numbers and JSON, and gets null for a missing key', async () => {
    expect(await redis.set('text', 'grüße 🌊')).toBe('OK');
    expect(await redis.get('text')).toBe('grüße 🌊');
    await redis.set('ok', 'OK');
    expect(await redis.get('ok')).toBe('OK');
    await redis.set('empty', '');
    expect(await redis.get('empty')).toBe('');
    await redis.set('number', 42);
    expect(await redis.get('number')).toBe(42);
    const value = { a: [1, null, 'ü'], b: { c: true } };
    await redis.set('json', value, { ex: 100 });
    expect(await redis.get('json')).toEqual(value);
    expect(await redis.ttl('json')).toBe(100);
    expect(await redis.get('none')).toBeNull();
    expect(await redis.set('text', 'x', { nx: true })).toBeNull();
    expect(await redis.mget('text', 'none', 'number')).toEqual(['grüße 🌊', null, 42]);
  });

  test('works with hashes, sorted sets, lists and sets', async () => {
    expect(await redis.hset('hash', { a: 1, b: 'two', c: { d: 3 } })).toBe(3);
    expect(await redis.hgetall('hash')).toEqual({ a: 1, b: 'two', c: { d: 3 } });
    expect(await redis.hgetall('none')).toBeNull();
    expect(await redis.hmget('hash', 'a', 'x')).toEqual({ a: 1, x: null });
    expect(await redis.zadd('zset', { score: 1.5, member: 'm' }, { score: 3, member: 'n' })).toBe(2);
    expect(await redis.zrange('zset', 0, -1, { withScores: true })).toEqual(['m', 1.5, 'n', 3]);
    expect(await redis.zscore('zset', 'm')).toBe(1.5);
    expect(await redis.rpush('list', 'a', 'b')).toBe(2);
    expect(await redis.lrange('list', 0, -1)).toEqual(['a', 'b']);
    expect(await redis.sadd('set', 'x')).toBe(1);
    expect(await redis.scan(0, { match: 's*' })).toEqual(['0', ['set']]);
  });

  test('runs pipelines and transactions', async () => {
    const pipeline = redis.pipeline().set('p', 1).incr('p').get('p').hgetall('none');
    expect(await pipeline.exec()).toEqual(['OK', 2, 2, null]);
    expect(await redis.multi().set('m', 'OK').get('m').incr('n').exec()).toEqual(['OK', 'OK', 1]);
    await expect(redis.multi().set('p', 'x').incr('p').exec()).rejects.toThrow(/not an integer/);
    const kept = await redis.pipeline().set('p', 'x').incr('p').get('p').exec({ keepErrors: true });
    expect(kept).toEqual([
      { result: 'OK', error: undefined },
      { result: undefined, error: 'ERR value is not an integer or out of range' },
      { result: 'x', error: undefined },
    ]);
  });

  test('runs many requests at once, each with its own answer', async () => {
    await Promise.all(Array.from({ length: 200 }, (_, i) => redis.set(`many:${i}`, `v${i}`)));
    const read = await Promise.all(Array.from({ length: 200 }, (_, i) => redis.get(`many:${i}`)));
    expect(read).toEqual(Array.from({ length: 200 }, (_, i) => `v${i}`));
  });

  test('runs scripts by text and by SHA', async () => {
    const script = `${FLAG}redis.call('SET', KEYS[1], ARGV[1])\nreturn {KEYS[1], ARGV[1], 7, false}`;
    expect(await redis.eval(script, ['key'], ['value'])).toEqual(['key', 'value', 7, null]);
    const sha = await redis.scriptLoad(script);
    expect(await redis.scriptExists(sha, 'f'.repeat(40))).toEqual([1, 0]);
    expect(await redis.evalsha(sha, ['key'], ['other'])).toEqual(['key', 'other', 7, null]);
    expect(await redis.createScript(script).exec(['key'], ['third'])).toEqual(['key', 'third', 7, null]);
    await redis.scriptFlush();
    await expect(redis.evalsha(sha, ['key'], ['x'])).rejects.toThrow(/NOSCRIPT/);
  });

  test('throws the errors of Redis and of a wrong token', async () => {
    await redis.set('key', 'text');
    await expect(redis.incr('key')).rejects.toThrow(/ERR value is not an integer or out of range/);
    const stranger = new Redis({ url: regions[0].gateway.url, token: 'wrong', ...options });
    await expect(stranger.get('key')).rejects.toThrow(/WRONGPASS/);
  });
});

test('@upstash/redis without base64 and parsing reads plain text', async () => {
  const redis = new Redis({ url: regions[0].gateway.url, token: TOKEN, ...text });
  await redis.set('key', '123');
  expect(await redis.get('key')).toBe('123');
  expect(await redis.eval(`${FLAG}return {1, '2', KEYS[1]}`, ['ü'], [])).toEqual([1, '2', 'ü']);
});

describe('@upstash/ratelimit', () => {
  const LIMIT = 10;
  const algorithms = {
    fixedWindow: Ratelimit.fixedWindow(LIMIT, '1 d'),
    slidingWindow: Ratelimit.slidingWindow(LIMIT, '1 d'),
    tokenBucket: Ratelimit.tokenBucket(1, '1 d', LIMIT),
  };
  const ratelimitFor = (limiter: (typeof algorithms)['fixedWindow']) =>
    new Ratelimit({
      redis: new Redis({ url: regions[0].gateway.url, token: TOKEN }),
      limiter,
      ephemeralCache: false,
    });

  test.each(Object.entries(algorithms))(
    '%s admits exactly the limit when requests come one after the other',
    async (_, limiter) => {
      const ratelimit = ratelimitFor(limiter);
      const remaining: number[] = [];
      for (let i = 0; i < LIMIT; i++) {
        const result = await ratelimit.limit('someone');
        expect(result.success).toBe(true);
        remaining.push(result.remaining);
      }
      expect(remaining).toEqual([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
      expect((await ratelimit.limit('someone')).success).toBe(false);
      expect((await ratelimit.limit('someone else')).success).toBe(true);
      expect((await ratelimit.getRemaining('someone else')).remaining).toBe(LIMIT - 1);
    },
  );

  test.each(Object.entries(algorithms))(
    '%s admits exactly the limit when requests come all at once',
    async (_, limiter) => {
      const ratelimit = ratelimitFor(limiter);
      const results = await Promise.all(Array.from({ length: 40 }, () => ratelimit.limit('crowd')));
      expect(results.filter(({ success }) => success)).toHaveLength(LIMIT);
    },
  );

  test.each([
    ['fixedWindow', MultiRegionRatelimit.fixedWindow(LIMIT, '1 d')],
    ['slidingWindow', MultiRegionRatelimit.slidingWindow(LIMIT, '1 d')],
  ])('%s admits exactly the limit over several regions', async (_, limiter) => {
    const redis = regions.map(({ gateway }) => new Redis({ url: gateway.url, token: TOKEN }));
    const ratelimit = new MultiRegionRatelimit({ redis, limiter, ephemeralCache: false });
    let admitted = 0;
    for (let i = 0; i < LIMIT + 5; i++) {
      const result = await ratelimit.limit('traveller');
      await result.pending;
      if (result.success) admitted++;
    }
    expect(admitted).toBe(LIMIT);
    for (const harness of regions) expect((await harness.send('DBSIZE')).json.result).toBeGreaterThan(0);
  });
});
