// The gateway locks like Upstash: who waits for whom, in which order, and for how long.
import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLockNeeds } from '../../local/upstash-gateway/lock-needs.ts';
import { createLocks, DATABASE, type Mode, type Wanted } from '../../local/upstash-gateway/locks.ts';
import { connectRedis, type RedisCommand } from '../../local/upstash-gateway/redis-link.ts';
import { createScripts } from '../../local/upstash-gateway/scripts.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createCheck } from '../redis/engines.ts';
import { eventually, FLAG, type Harness, startHarness, TOKEN } from './upstash-gateway-harness.ts';

/** Work that begins when it has its locks, and ends on command. */
function open(holdMs = 0) {
  const locks = createLocks({ holdMs });
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const start = (name: string, wanted: Wanted) =>
    locks.run(wanted, () => {
      begun.push(name);
      return new Promise<void>((resolve) => ends.set(name, resolve));
    });
  const settle = () => new Promise((resolve) => setTimeout(resolve));
  const end = async (name: string) => {
    ends.get(name)?.();
    await settle();
  };
  return { locks, begun, start, end, settle };
}
const on = (mode: Mode, ...keys: string[]): Wanted =>
  new Map<string | typeof DATABASE, Mode>([[DATABASE, 'shared'], ...keys.map((key) => [key, mode] as const)]);
const read = (...keys: string[]) => on('shared', ...keys);
const write = (...keys: string[]) => on('exclusive', ...keys);
const everything: Wanted = new Map([[DATABASE, 'exclusive']]);

describe('a lock', () => {
  it('is shared by readers, and not with a writer', async () => {
    const { begun, start, end, settle } = open();
    void start('reader 1', read('a'));
    void start('reader 2', read('a'));
    void start('writer', write('a'));
    await settle();
    expect(begun).toEqual(['reader 1', 'reader 2']);
    await end('reader 1');
    expect(begun).toHaveLength(2);
    await end('reader 2');
    expect(begun.at(-1)).toBe('writer');
  });

  it('is given in the order of arrival: no reader overtakes a waiting writer', async () => {
    const { begun, start, end, settle } = open();
    for (const [name, wanted] of [
      ['reader 1', read('a')],
      ['writer 1', write('a')],
      ['reader 2', read('a')],
      ['reader 3', read('a')],
      ['writer 2', write('a')],
    ] as const)
      void start(name, wanted);
    await settle();
    expect(begun).toEqual(['reader 1']);
    await end('reader 1');
    expect(begun.slice(1)).toEqual(['writer 1']);
    await end('writer 1');
    expect(begun.slice(2)).toEqual(['reader 2', 'reader 3']);
    for (const reader of ['reader 2', 'reader 3']) await end(reader);
    expect(begun.slice(4)).toEqual(['writer 2']);
  });

  it('of one key does not affect other keys', async () => {
    const { begun, start, settle } = open();
    void start('a', write('a'));
    void start('b', write('b'));
    await settle();
    expect(begun).toEqual(['a', 'b']);
  });

  it('of the whole database waits for all earlier locks, and all later ones wait for it', async () => {
    const { begun, start, end, settle } = open();
    void start('a', read('a'));
    void start('all', everything);
    void start('b', read('b'));
    await settle();
    expect(begun).toEqual(['a']);
    await end('a');
    expect(begun).toEqual(['a', 'all']);
    await end('all');
    expect(begun).toEqual(['a', 'all', 'b']);
  });

  it('is given back when its command fails', async () => {
    const { locks } = open();
    await expect(locks.run(write('a'), () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(await locks.run(write('a'), async () => 'next')).toBe('next');
  });

  it('is kept by a writer for the hold time', async () => {
    const HOLD_MS = 50;
    const { locks } = open(HOLD_MS);
    const startedAtMs = performance.now();
    const at = () => Promise.resolve(performance.now() - startedAtMs);
    const [read1, write1, read2] = [read('a'), write('a'), read('a')].map((wanted) => locks.run(wanted, at));
    expect(await write1).toBeGreaterThanOrEqual((await read1) as number);
    expect(await read2).toBeGreaterThanOrEqual(((await write1) as number) + HOLD_MS - 1);
  });

  it('is not kept by a reader: a waiting writer begins as soon as the reader has ended', async () => {
    // Nobody could wait that long. The writer never ends, so it leaves no timer behind.
    const { begun, start, end, settle } = open(3_600_000);
    void Promise.all([start('reader', read('a')), start('writer', write('a'))]);
    await settle();
    expect(begun).toEqual(['reader']);
    await end('reader');
    expect(begun).toEqual(['reader', 'writer']);
  });

  it('excludes conflicting commands, and every command gets its locks in the end', async () => {
    const key = fc.constantFrom('a', 'b', 'c');
    const wish = fc.oneof(
      { weight: 8, arbitrary: fc.tuple(fc.constantFrom<Mode>('shared', 'exclusive'), fc.uniqueArray(key)) },
      { weight: 1, arbitrary: fc.constant(undefined) },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(wish, fc.nat(3)), { maxLength: 30 }), async (wishes) => {
        const locks = createLocks({ holdMs: 0 });
        const holding = new Set<Wanted>();
        const conflicts = (one: Wanted, other: Wanted) =>
          [...one].some(([name, mode]) => {
            const theirs = other.get(name);
            return theirs !== undefined && (mode === 'exclusive' || theirs === 'exclusive');
          });
        const done = wishes.map(async ([wanted, turns]) => {
          const needs = wanted ? on(wanted[0], ...wanted[1]) : everything;
          await locks.run(needs, async () => {
            for (const other of holding) expect(conflicts(needs, other)).toBe(false);
            holding.add(needs);
            for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
            holding.delete(needs);
          });
        });
        await Promise.all(done);
      }),
    );
  });
});

describe('what a command locks', () => {
  const FLAGGED = `${FLAG}return redis.call('GET', KEYS[1])`;
  const PLAIN = "return redis.call('GET', KEYS[1])";
  let harness: Harness;
  beforeAll(async () => {
    harness = await startHarness();
  });
  afterAll(() => harness?.stop());

  const needs = async (...commands: RedisCommand[]) => {
    const link = await connectRedis(harness.redis.url, 'test');
    const known = await createLockNeeds(link, createScripts(() => '').hasKeyLocking);
    const [first, ...others] = commands;
    const wanted = first && others.length === 0 ? await known.of(first) : await known.ofTransaction(commands);
    link.close();
    const { [DATABASE]: whole, ...keys } = Object.fromEntries(wanted) as Record<string | symbol, Mode>;
    return whole === 'exclusive' ? 'everything' : keys;
  };

  it.each<[RedisCommand, Awaited<ReturnType<typeof needs>>]>([
    [['GET', 'a'], { a: 'shared' }],
    [['MGET', 'a', 'b'], { a: 'shared', b: 'shared' }],
    [['HGETALL', 'a'], { a: 'shared' }],
    [['pttl', 'a'], { a: 'shared' }],
    [['SET', 'a', '1', 'PX', '5'], { a: 'exclusive' }],
    [['MSET', 'a', '1', 'b', '2'], { a: 'exclusive', b: 'exclusive' }],
    [['UNLINK', 'a', 'b'], { a: 'exclusive', b: 'exclusive' }],
    [['ZUNIONSTORE', 'to', '2', 'a', 'b'], { to: 'exclusive', a: 'exclusive', b: 'exclusive' }],
    [['PING'], {}],
    [['SCRIPT', 'LOAD', FLAGGED], {}],
    [['FLUSHALL'], 'everything'],
    [['EVAL', FLAGGED, '2', 'a', 'b', 'argument'], { a: 'exclusive', b: 'exclusive' }],
    [['EVAL_RO', FLAGGED, '1', 'a'], { a: 'shared' }],
    [['EVAL', PLAIN, '1', 'a'], 'everything'],
    [['EVALSHA', 'f'.repeat(40), '1', 'a'], 'everything'],
  ])('%j', async (command, expected) => {
    expect(await needs(command)).toEqual(expected);
  });

  it('in a transaction: all keys exclusively, or the whole database if there is a script', async () => {
    expect(await needs(['GET', 'a'], ['SET', 'b', '1'])).toEqual({ a: 'exclusive', b: 'exclusive' });
    expect(await needs(['GET', 'a'], ['EVAL', FLAGGED, '1', 'a'])).toBe('everything');
  });
});

describe('in a gateway that locks,', () => {
  /** Long compared with a request, however busy the machine is. */
  const HOLD_MS = 1_000;
  const MARK = `redis.call('SET', KEYS[1], 'x')`;
  let harness: Harness;
  let redis: Redis;
  beforeAll(async () => {
    harness = await startHarness({ locks: { holdMs: HOLD_MS } });
    redis = new Redis(harness.redis.url);
    await harness.send('EVAL', FLAG + MARK, 1, 'loaded');
  });
  afterAll(async () => {
    redis?.disconnect();
    await harness?.stop();
  });

  const post = (path: string, ...body: unknown[]) =>
    harness.request(path, { method: 'POST', body: JSON.stringify(body) });
  let names = 0;

  /** Which answer comes first: that of a write that holds `a`, or that of a command sent after it. */
  const race = async (
    first: (key: string) => Promise<unknown>,
    second: (key: string, other: string) => Promise<unknown>,
  ) => {
    const [key, other] = [`key ${++names}`, `other ${names}`];
    const answered: string[] = [];
    const one = first(key).then(() => answered.push('first'));
    await hasRun(key);
    await Promise.all([one, second(key, other).then(() => answered.push('second'))]);
    return answered[0];
  };
  const script = (key: string) => harness.send('EVAL', FLAG + MARK, 1, key);
  const set = (key: string) => harness.send('SET', key, 'x');
  const get = (key: string) => harness.send('GET', key);
  const hasRun = (key: string) => eventually(async () => expect(await redis.exists(key)).toBe(1));
  /** Resolves as soon as the write has run, because its own answer takes the hold time, too. */
  const begin = (write: (key: string) => Promise<unknown>) => (_: string, other: string) => {
    void write(other);
    return hasRun(other);
  };

  it.concurrent.each([
    ['a script makes readers of its key wait', script, get, 'first'],
    ['a script makes scripts on its key wait', script, script, 'first'],
    ['a script leaves other keys alone', script, (_: string, other: string) => get(other), 'second'],
    ['a script leaves scripts on other keys alone', script, begin(script), 'second'],
    ['a write makes readers of its key wait', set, get, 'first'],
    ['a write leaves other keys alone', set, begin(set), 'second'],
    [
      'a pipeline holds the keys of one command at a time',
      (key: string) => post('/pipeline', ['SET', key, 'x'], ['SET', `${key} later`, 'x']),
      (key: string) => get(`${key} later`),
      'second',
    ],
    [
      'a transaction holds all of its keys',
      (key: string) => post('/multi-exec', ['SET', key, 'x'], ['GET', `${key} read`]),
      (key: string) => get(`${key} read`),
      'first',
    ],
  ] as const)('%s', async (_, first, second, answeredFirst) => {
    expect(await race(first, second)).toBe(answeredFirst);
  });

  it('a script without the flag, or in a transaction, makes every other command wait', async () => {
    const plain = (key: string) => harness.send('EVAL', MARK, 1, key);
    const inTransaction = (key: string) => post('/multi-exec', ['EVAL', FLAG + MARK, 1, key]);
    for (const first of [plain, inTransaction])
      expect(await race(first, (_, other) => get(other))).toBe('first');
  });

  it('a pipeline runs in order even if its first command waits', async () => {
    const key = `key ${++names}`;
    void set(key);
    await hasRun(key);
    const { json } = await post('/pipeline', ['APPEND', key, '1'], ['GET', key]);
    expect(json).toEqual([{ result: 2 }, { result: 'x1' }]);
  });

  it('takes that also read the announcement wait only for their own subject', async () => {
    const waits: number[] = [];
    await using stack = new AsyncDisposableStack();
    const busy = stack.adopt(
      await startHarness({ locks: { holdMs: HOLD_MS, onWait: (ms) => waits.push(ms) } }),
      ({ stop }) => stop(),
    );
    const store = createUpstashStore(createClient({ url: busy.gateway.url, token: TOKEN }));
    const take = (subject: string, withAnnouncement = true) =>
      store.take(
        {
          checks: [
            createCheck({ key: `weir:{ip:=${subject}}`, algorithm: 'gcra', limit: 9, windowMs: 60_000 }),
          ],
          withAnnouncement,
        },
        AbortSignal.timeout(20_000),
      );
    await take('loads the script');
    waits.length = 0;
    await Promise.all(Array.from({ length: 50 }, (_, i) => take(`subject ${i}`)));
    // If they ran one after the other, the last one would have waited for 49 others.
    expect(waits).toHaveLength(100);
    expect(Math.max(...waits)).toBeLessThan(HOLD_MS);
  });
});
