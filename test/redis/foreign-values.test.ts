// A key may hold what the script did not write: another type, another format, another algorithm's state. That counts as
// no state, and the next charge replaces it.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { rounds } from '../rounds.ts';
import { createCheck, next } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

const LIMIT = 5;

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
});
afterAll(() => lua[Symbol.asyncDispose]());

const rule = (algorithm: (typeof ALGORITHM_IDS)[number]) =>
  createCheck({ algorithm, limit: LIMIT, windowMs: 3_600_000_000 });

async function remainingAfter(operation: 'take' | 'peek', check: Check): Promise<number> {
  const { outcomes } = await lua.run({ operation, checks: [next(check)] });
  return outcomes[0]?.remaining ?? Number.NaN;
}

/** The script treats the value as no state: a peek leaves the value alone, and a take replaces it. */
async function expectNoState(check: Check): Promise<void> {
  const before = await lua.redis.dumpBuffer(check.key);
  expect(await remainingAfter('peek', check)).toBe(LIMIT);
  expect(await lua.redis.dumpBuffer(check.key)).toEqual(before);
  expect(await remainingAfter('take', check)).toBe(LIMIT - 1);
  expect(await remainingAfter('take', check)).toBe(LIMIT - 2);
  expect(await lua.redis.type(check.key)).toBe('string');
  expect(await lua.redis.pttl(check.key)).toBeGreaterThan(0);
}

const OTHER_TYPES: Record<string, (key: string) => Promise<unknown>> = {
  list: (key) => lua.redis.rpush(key, 'a', 'b'),
  hash: (key) => lua.redis.hset(key, 'a', 'b'),
  set: (key) => lua.redis.sadd(key, 'a'),
  zset: (key) => lua.redis.zadd(key, 1, 'a'),
  stream: (key) => lua.redis.xadd(key, '*', 'a', 'b'),
};

describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
  it.each(Object.keys(OTHER_TYPES))('treats a %s under its key as no state', async (type) => {
    const check = rule(algorithm);
    await OTHER_TYPES[type]?.(check.key);
    await expectNoState(check);
  });

  it('treats any text under its key as no state', async () => {
    const text = fc.oneof(
      fc.string(),
      fc.constantFrom(
        '',
        '0',
        '5',
        '{"count":5}',
        'weir3',
        '000000000000000 weir3;',
        '000000000000000 weir3',
        '\u0000',
      ),
    );
    await fc.assert(
      fc.asyncProperty(text, async (value) => {
        const check = rule(algorithm);
        await lua.redis.set(check.key, value);
        await expectNoState(check);
      }),
      { numRuns: rounds(30) },
    );
  });

  it('treats another format as no state', async () => {
    for (const value of [
      // Values of older versions: their counters start from nothing.
      'weir2 000001800000000;\nrule f1800000000000  5;',
      '\nrule f1800000000000  5;',
      '009999999999999 weir4;rule:f9999999999999 5;',
      '9999999999999 weir3;rule:f9999999999999 5;',
      '009999999999999 weir3rule:f9999999999999 5;',
      ';rule:f9999999999999 5;',
      '009999999999999 weir3;rule:f 5;',
      '009999999999999 weir3;rule:f9999999999999 5',
      '009999999999999 weir3;rule:f9999999999999 5 ;',
      '009999999999999 weir3;rule:F9999999999999;',
      '009999999999999 weir3;rule:m9999999999999;',
      'xxxxxxxxxxxxxxx weir3;rule:;rule:',
      'xxxxxxxxxxxxxxx weir3;',
      '009999999999999 weir3;rule:f1796400000000 x;',
      '009999999999999 weir3;rule:c1796400000000 x 1;',
      '009999999999999 weir3;rule:c1796400000000 1 x;',
    ]) {
      const check = rule(algorithm);
      await lua.redis.set(check.key, value);
      await expectNoState(check);
    }
  });

  it('treats the state of another version of the format as no state', async () => {
    const check = rule(algorithm);
    await lua.run({ operation: 'take', checks: [next(check, { cost: LIMIT })] });
    const value = (await lua.redis.getBuffer(check.key)) ?? Buffer.alloc(0);
    const version = value.indexOf('weir') + 'weir'.length;
    value.writeUInt8(value.readUInt8(version) ^ 1, version);
    await lua.redis.set(check.key, value);
    await expectNoState(check);
  });

  it('treats the first bytes of its own state as no state', async () => {
    const check = rule(algorithm);
    await lua.run({ operation: 'take', checks: [next(check, { cost: LIMIT })] });
    const whole = (await lua.redis.getBuffer(check.key)) ?? Buffer.alloc(0);
    expect(whole.length).toBeGreaterThan(20);
    for (let length = 0; length < whole.length; length++) {
      await lua.redis.set(check.key, whole.subarray(0, length));
      await expectNoState(check);
    }
  });

  it.each(ALGORITHM_IDS.filter((id) => id !== algorithm))(
    'starts from nothing after %s has counted under the same id, and the other way round',
    async (other) => {
      const before = rule(other);
      await lua.run({ operation: 'take', checks: [next(before, { cost: LIMIT })] });
      const after = { ...rule(algorithm), key: before.key };
      expect(await remainingAfter('peek', after)).toBe(LIMIT);
      expect(await remainingAfter('take', after)).toBe(LIMIT - 1);
      expect(await remainingAfter('take', before)).toBe(LIMIT - 1);
    },
  );
});
