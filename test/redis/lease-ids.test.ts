import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCheck } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
});
afterAll(() => lua[Symbol.asyncDispose]());

// Options and lease id travel in one argument: what an id spells must not be taken for an option.
it.each(['abclogabcdefghij', 'abcdeniedefghijk', 'cost=9 abcdefghi', ' want=9 at=1 log', 'lease=lease=abcd'])(
  'a lease id that spells options is an id and nothing else: %s',
  async (leaseId) => {
    const check = createCheck({ algorithm: 'concurrency', limit: 1, windowMs: 3_600_000, leaseId });
    const other = { ...check, leaseId: '0123456789abcdef' };
    const take = async (one: typeof check) =>
      (await lua.run({ operation: 'take', checks: [one] })).outcomes.map(({ allowed, remaining }) => [
        allowed,
        remaining,
      ]);
    expect(await take(check)).toEqual([[true, 0]]);
    expect(await take(other)).toEqual([[false, 0]]);
    await lua.run({ operation: 'refund', checks: [check] });
    expect(await take(other)).toEqual([[true, 0]]);
    expect(await take(check)).toEqual([[false, 0]]);
  },
);
