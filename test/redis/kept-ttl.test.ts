// By the server's own clock, a write keeps the TTL of its key if no counter in it now expires later. After any write, a
// key has a TTL and holds what was charged.
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { IDLE_MS, SLACK_MS } from '../../src/core/counting/transfer.ts';
import { rounds } from '../rounds.ts';
import { createCheck, next, nextKey } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

/** So long that no window ends and nothing refills during a test. */
const WINDOW_MS = 3_600_000_000;
const LIMIT = 100;

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
});
afterAll(() => lua[Symbol.asyncDispose]());
beforeEach(async () => void (await lua.redis.flushall()));

const rule = (algorithm: AlgorithmId, key = nextKey()): Check =>
  createCheck({ algorithm, id: algorithm, key, limit: LIMIT, windowMs: WINDOW_MS });
const take = (...checks: readonly Check[]) =>
  lua.run({ operation: 'take', checks: checks.map((check) => next(check)) });

async function charged(check: Check): Promise<number> {
  const { outcomes } = await lua.run({ operation: 'peek', checks: [next(check)] });
  return LIMIT - (outcomes[0]?.remaining ?? Number.NaN);
}

describe('the TTL of a key', () => {
  it.each(['fixed-window', 'sliding-window-counter'] as const)(
    'of %s is the same after each charge of one window',
    async (algorithm) => {
      const check = rule(algorithm);
      await take(check);
      const expiresAtMs = await lua.redis.pexpiretime(check.key);
      const { outcomes } = await take(check);
      expect(outcomes[0]?.resetAtMs).toBe(expiresAtMs - IDLE_MS - SLACK_MS);
      expect(await lua.redis.pexpiretime(check.key)).toBe(expiresAtMs);
    },
  );

  it.each(['token-bucket', 'gcra', 'leaky-bucket'] as const)(
    'of %s moves with the end of its counter, unless another counter outlives it',
    async (algorithm) => {
      const bucket = rule(algorithm);
      await take(bucket);
      const { outcomes } = await take(bucket);
      expect(await lua.redis.pexpiretime(bucket.key)).toBe(
        (outcomes[0]?.resetAtMs ?? 0) + IDLE_MS + SLACK_MS,
      );
      const longer = rule('sliding-window-counter', bucket.key);
      await take(longer, bucket);
      const expiresAtMs = await lua.redis.pexpiretime(bucket.key);
      await take(longer, bucket);
      expect(await lua.redis.pexpiretime(bucket.key)).toBe(expiresAtMs);
    },
  );

  it('that was removed is back after the next counter begins', async () => {
    const check = rule('fixed-window');
    await take(check);
    await lua.redis.persist(check.key);
    await take(rule('gcra', check.key));
    expect(await lua.redis.pttl(check.key)).toBeGreaterThan(0);
  });
});

it('a counter that begins in one key does not affect a counter in another key', async () => {
  const known = rule('fixed-window');
  await take(known);
  await take(known, rule('gcra'));
  expect(await charged(known)).toBe(2);
  expect(await lua.redis.pttl(known.key)).toBeGreaterThan(0);
});

it('every counter holds its charges, in any order of rules over several keys', async () => {
  const history = fc.array(
    fc.uniqueArray(fc.nat({ max: ALGORITHM_IDS.length - 1 }), { minLength: 1, maxLength: 5 }),
    { minLength: 1, maxLength: 25 },
  );
  await fc.assert(
    fc.asyncProperty(history, async (requests) => {
      const keys = [nextKey(), nextKey(), nextKey()];
      const rules = ALGORITHM_IDS.map((algorithm, i) => rule(algorithm, keys[i % keys.length]));
      for (const used of requests) await take(...used.flatMap((i) => rules[i] ?? []));
      for (const [i, one] of rules.entries())
        expect(await charged(one)).toBe(requests.filter((used) => used.includes(i)).length);
      for (const key of keys) expect(await lua.redis.pttl(key)).not.toBe(-1);
    }),
    { numRuns: rounds(40) },
  );
});
