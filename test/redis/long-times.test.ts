// Slow buckets are free again after the year 2286, so their times have more than 13 digits. The straight part of the
// script leaves those to the general part, which reads and writes them whole.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Check } from '../../src/core/counting/check.ts';
import { createCheck, nextKey, START_MS } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

const DAY_MS = 86_400_000;
/** The text of a key up to the first record: 15 digits and the name of the format. */
const HEADER = /^(\d{15}) weir3;/;

let clocked: LuaCounters;
let real: LuaCounters;
beforeAll(async () => {
  [clocked, real] = await Promise.all([
    startLuaCounters({ injectedClock: true }),
    startLuaCounters({ injectedClock: false }),
  ]);
});
afterAll(() => Promise.all([clocked, real].map((lua) => lua[Symbol.asyncDispose]())));

/** Full again after 274 years. */
const slow = (changes: Partial<Check> = {}) =>
  createCheck({ algorithm: 'token-bucket', limit: 1, windowMs: DAY_MS, extra: 100_000, ...changes });
const minute = (changes: Partial<Check>) =>
  createCheck({ algorithm: 'fixed-window', id: 'other', limit: 100, windowMs: 60_000, ...changes });

async function take(lua: LuaCounters, check: Check, nowMs?: number) {
  const { outcomes } = await lua.run({ operation: 'take', checks: [check], nowMs });
  return outcomes[0];
}
const textOf = async (lua: LuaCounters, { key }: Check) => (await lua.redis.get(key)) ?? '';

describe.each(['token-bucket', 'gcra', 'leaky-bucket'] as const)('a slow %s', (algorithm) => {
  it('that is used up admits nothing before its time', async () => {
    const check = slow({ algorithm });
    expect(await take(clocked, { ...check, cost: 100_000 }, START_MS)).toMatchObject({
      allowed: true,
      resetAtMs: START_MS + 100_000 * DAY_MS,
    });
    for (const [cost, retryAfterMs] of [
      [1, DAY_MS - 1],
      [90_000, 90_000 * DAY_MS - 1],
    ] as const)
      expect(await take(clocked, { ...check, cost }, START_MS + 1)).toMatchObject({
        allowed: false,
        retryAfterMs,
      });
    expect(await take(clocked, check, START_MS + DAY_MS)).toMatchObject({ allowed: true });
  });

  it('stays when other counters of its key are written, in the straight part and as an operation', async () => {
    const check = slow({ algorithm });
    await take(real, { ...check, cost: 100_000 });
    for (const changes of [{ id: 'a' }, { id: 'a' }, { id: 'b', blockMs: 1 }, { id: 'b', blockMs: 1 }]) {
      await take(real, minute({ key: check.key, ...changes }));
      expect(await take(real, check)).toMatchObject({ allowed: false, remaining: 0 });
      expect(await textOf(real, check)).toMatch(HEADER);
      expect(await real.redis.pttl(check.key)).toBeGreaterThan(99_999 * DAY_MS);
    }
  });
});

it('a block and a transfer of the longest time keep the form of their key', async () => {
  const blocking = minute({ limit: 1, blockMs: 2 ** 40 });
  await take(real, blocking);
  expect(await take(real, blocking)).toMatchObject({ allowed: false, retryAfterMs: 2 ** 40 });
  const moved = slow();
  const transfer = { owner: 'eu', termMs: 2 ** 44, holdMs: 2 ** 44 };
  const { outcomes } = await real.run({ operation: 'transfer', checks: [{ ...moved, transfer }] });
  expect(outcomes).toMatchObject([{ kind: 'transferred' }]);
  for (const check of [blocking, moved]) expect(await textOf(real, check)).toMatch(HEADER);
  expect(await take(real, moved)).toMatchObject({ transferredTo: { name: 'eu' } });
});

it('the debt of the slowest bucket is the latest time, and the next take reads it', async () => {
  const check = slow({ windowMs: 2 ** 24, extra: 2 ** 20 });
  await take(real, { ...check, cost: 2 ** 20 });
  const settled = { ...check, cost: 2 ** 20, chargedAtMs: START_MS };
  await real.run({ operation: 'settle', checks: [settled] });
  expect(await textOf(real, check)).toMatch(HEADER);
  const denied = await take(real, check);
  expect(denied?.allowed).toBe(false);
  expect((denied?.retryAfterMs ?? 0) - 2 ** 44).toBeGreaterThan(0);
});

it('a header of any number of digits is read, and a damaged one is written anew from all counters', async () => {
  const lastMs = 15_000_000_000_000;
  for (const header of ['018000000000000', '999999999999999', 'xxxxxxxxxxxxxxx', '0018x0000000000']) {
    const key = nextKey();
    const text = `${header} weir3;rule:t${lastMs} ${2 ** 20} 1;`;
    await real.redis.set(key, text);
    // With an option, an operation does it. It does not trust a header that no counter can have.
    await take(real, minute({ key, blockMs: 1 }));
    const expiresAtMs = header === '018000000000000' ? 18_000_000_000_000 : lastMs + 5_000;
    expect(await textOf(real, slow({ key }))).toMatch(new RegExp(`^0${expiresAtMs} weir3;`));
    expect(await real.redis.pexpiretime(key)).toBe(expiresAtMs);
  }
});

it('a damaged counter in one key leaves no other key half written', async () => {
  const [good, bad] = [minute({}), minute({})];
  await real.redis.set(bad.key, `009999999999999 weir3;old:f${'9'.repeat(400)} 1;other:f1;`);
  const checks = [good, bad];
  const { outcomes } = await real.run({ operation: 'take', checks });
  expect(outcomes).toMatchObject([
    { allowed: true, remaining: 99 },
    { allowed: true, remaining: 99 },
  ]);
  expect(await textOf(real, bad)).toMatch(/^00\d{13} weir3;other:f\d{13} 1;$/);
});
