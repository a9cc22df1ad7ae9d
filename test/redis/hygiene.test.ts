// What stays in Redis: keys with real TTLs by the server's own clock, no longer than needed, and of a bounded size.
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import { IDLE_MS, SLACK_MS } from '../../src/core/counting/transfer.ts';
import { rounds } from '../rounds.ts';
import { createCheck, holdsSeats, next, nextKey, type RuleShape, WITHOUT_SEATS } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

const HOUR_MS = 3_600_000;

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
});
afterAll(() => lua[Symbol.asyncDispose]());
beforeEach(async () => void (await lua.redis.flushall()));

const ruleWithin = (windowMs: fc.Arbitrary<number>): fc.Arbitrary<RuleShape> =>
  fc
    .record({
      algorithm: fc.constantFrom(...ALGORITHM_IDS),
      limit: fc.integer({ min: 1, max: 6 }),
      windowMs,
      extra: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
      countDenied: fc.boolean(),
      blockMs: fc.option(windowMs, { nil: undefined }),
    })
    .map((rule) => ({ ...rule, countDenied: rule.countDenied && !holdsSeats(rule.algorithm) }));

const request = fc.record({
  operation: fc.constantFrom('take', 'take', 'take', 'take', 'refund', 'settle', 'peek'),
  used: fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 }),
  cost: fc.integer({ min: 1, max: 4 }),
});

type Request = typeof request extends fc.Arbitrary<infer R> ? R : never;

/** Four rules, two of them under one key, and any requests under them, by the server's clock. */
async function play(rules: readonly RuleShape[], requests: readonly Request[]): Promise<Check[]> {
  const shared = nextKey();
  const checks = rules.map((rule, i) =>
    createCheck({ ...rule, id: `rule-${i}`, key: i < 2 ? shared : nextKey() }),
  );
  let chargedAtMs = 1;
  for (const { operation, used, cost } of requests) {
    const asked = used
      .flatMap((i) => checks[i] ?? [])
      .filter(({ algorithm }) => operation !== 'settle' || !holdsSeats(algorithm))
      .map((check) => next(check, { cost, chargedAtMs }));
    if (asked.length === 0) continue;
    const { nowMs } = await lua.run({ operation, checks: asked });
    if (operation === 'take') chargedAtMs = nowMs;
    await expectTtls();
  }
  return checks;
}

async function expectTtls(): Promise<void> {
  const keys = await lua.redis.keys('*');
  // -2 means that the key has just expired, -1 that it never will.
  for (const key of keys) expect(await lua.redis.pttl(key)).not.toBe(-1);
}

const rulesWithin = (windowMs: fc.Arbitrary<number>) =>
  fc.array(ruleWithin(windowMs), { minLength: 4, maxLength: 4 });
const requests = fc.array(request, { minLength: 1, maxLength: 12 });

const only = (outcomes: readonly Outcome[]): Outcome => {
  const [outcome] = outcomes;
  if (!outcome || outcomes.length > 1) throw new Error('expected one outcome');
  return outcome;
};

describe('a key', () => {
  it('always has a TTL, which is no longer than its rules need', async () => {
    const windowMs = fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(10_000, HOUR_MS));
    await fc.assert(
      fc.asyncProperty(rulesWithin(windowMs), requests, async (rules, history) => {
        await lua.redis.flushall();
        const checks = await play(rules, history);
        for (const key of new Set(checks.map((check) => check.key))) {
          const own = checks.filter((check) => check.key === key).map((check) => next(check));
          const before = await lua.run({ operation: 'peek', checks: own });
          const last = createCheck({
            algorithm: 'fixed-window',
            id: 'last',
            key,
            limit: 9,
            windowMs: 10_000,
          });
          const { nowMs, outcomes } = await lua.run({ operation: 'take', checks: [last] });
          const needed = [...before.outcomes, ...outcomes].map(({ resetAtMs }) => resetAtMs - nowMs);
          const ttl = await lua.redis.pttl(key);
          expect(ttl === -2 || ttl > 0).toBe(true);
          expect(ttl).toBeLessThanOrEqual(Math.max(...needed) + IDLE_MS + SLACK_MS);
        }
      }),
      { numRuns: rounds(100) },
    );
  });

  it.each(ALGORITHM_IDS)(
    'of %s lives two windows, the idle time and the slack at most, even in debt',
    async (algorithm) => {
      const check = createCheck({ algorithm, limit: 3, windowMs: HOUR_MS, cost: 3 });
      const ttlAfter = async (asked: Check) => {
        await lua.run({ operation: 'take', checks: [asked] });
        return lua.redis.pttl(check.key);
      };
      const ttl = await ttlAfter(check);
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(2 * HOUR_MS + IDLE_MS + SLACK_MS);
      if (holdsSeats(algorithm)) return;
      for (let i = 0; i < 5; i++)
        expect(await ttlAfter(next(check, { countDenied: true }))).toBeLessThanOrEqual(
          2 * HOUR_MS + IDLE_MS + SLACK_MS,
        );
    },
  );

  it.each(WITHOUT_SEATS)(
    'of %s lives two windows, the idle time and the slack at most, however much is settled',
    async (algorithm) => {
      const check = createCheck({ algorithm, limit: 3, windowMs: HOUR_MS });
      const { nowMs: chargedAtMs } = await lua.run({ operation: 'take', checks: [check] });
      for (const cost of [1, 1_000_000, 1]) {
        await lua.run({ operation: 'settle', checks: [{ ...check, cost, chargedAtMs }] });
        const ttl = await lua.redis.pttl(check.key);
        expect(ttl).toBeGreaterThan(0);
        expect(ttl).toBeLessThanOrEqual(2 * HOUR_MS + IDLE_MS + SLACK_MS);
      }
    },
  );

  it('lives until the burst is whole again, or the block is over', async () => {
    const burst = createCheck({ algorithm: 'token-bucket', limit: 1, extra: 5, windowMs: HOUR_MS, cost: 5 });
    await lua.run({ operation: 'take', checks: [burst] });
    expect(await lua.redis.pttl(burst.key)).toBeGreaterThan(4 * HOUR_MS);
    expect(await lua.redis.pttl(burst.key)).toBeLessThanOrEqual(5 * HOUR_MS + IDLE_MS + SLACK_MS);
    const blocked = createCheck({ algorithm: 'gcra', limit: 1, windowMs: 1_000, blockMs: 9 * HOUR_MS });
    await lua.run({ operation: 'take', checks: [blocked] });
    await lua.run({ operation: 'take', checks: [blocked] });
    expect(await lua.redis.pttl(blocked.key)).toBeGreaterThan(8 * HOUR_MS);
    expect(await lua.redis.pttl(blocked.key)).toBeLessThanOrEqual(9 * HOUR_MS + IDLE_MS + SLACK_MS);
  });

  it('keeps a slow counter when a fast one beside it has run out', async () => {
    const slow = createCheck({ algorithm: 'token-bucket', id: 'slow', limit: 5, windowMs: 1_000 * HOUR_MS });
    const fast = { ...slow, id: 'fast', windowMs: 20 };
    await lua.run({ operation: 'take', checks: [slow] });
    await lua.run({ operation: 'take', checks: [fast] });
    const left = async () => only((await lua.run({ operation: 'peek', checks: [fast] })).outcomes).remaining;
    await expect.poll(left).toBe(5);
    const { outcomes } = await lua.run({ operation: 'peek', checks: [slow] });
    expect(only(outcomes).remaining).toBe(4);
  });

  it('expires when its subject goes quiet', async () => {
    await fc.assert(
      fc.asyncProperty(rulesWithin(fc.integer({ min: 1, max: 20 })), requests, async (rules, history) => {
        await play(rules, history);
      }),
      { numRuns: rounds(30) },
    );
    await expect.poll(() => lua.redis.dbsize()).toBe(0);
  });
});

describe('a stored key', () => {
  it('does not grow with rules that come and go', async () => {
    const rule = createCheck({ algorithm: 'fixed-window', limit: 5, windowMs: HOUR_MS });
    const sizes: number[] = [];
    for (let i = 0; i < 2_100; i++) {
      await lua.run({ operation: 'take', checks: [{ ...rule, id: String(i).padStart(8, '0') }] });
      sizes.push(await lua.redis.strlen(rule.key));
    }
    expect(Math.max(...sizes.slice(1_050))).toBeLessThanOrEqual(Math.max(...sizes.slice(0, 1_050)));
  });

  it('holds the counters of hundreds of rules without forgetting one', async () => {
    const rule = createCheck({ algorithm: 'fixed-window', limit: 1, windowMs: 1_000 * HOUR_MS });
    const checks = Array.from({ length: 450 }, (_, i) => ({ ...rule, id: `rule-${i}` }));
    for (let i = 0; i < checks.length; i += 90)
      await lua.run({ operation: 'take', checks: checks.slice(i, i + 90) });
    for (let i = 0; i < checks.length; i += 90) {
      const { outcomes } = await lua.run({ operation: 'take', checks: checks.slice(i, i + 90) });
      expect(outcomes.filter(({ allowed }) => allowed)).toEqual([]);
    }
  });

  // Each call puts its counters first, so number 400 comes right after the new one, and number 99 is the last.
  it.each([0, 99, 250, 400, 499])(
    'has room for 500 counters, and one more replaces the counter that expires first: number %i',
    async (soonest) => {
      const rule = createCheck({ algorithm: 'fixed-window', limit: 1, windowMs: 1_000 * HOUR_MS });
      const checks = Array.from({ length: 501 }, (_, i) => ({
        ...rule,
        id: `rule-${i}`,
        windowMs: (i === soonest ? 1 : 1_000) * HOUR_MS,
      }));
      const each = async (operation: 'take' | 'peek', some: readonly Check[]) => {
        const outcomes: Outcome[] = [];
        for (let i = 0; i < some.length; i += 100)
          outcomes.push(...(await lua.run({ operation, checks: some.slice(i, i + 100) })).outcomes);
        return outcomes.flatMap(({ remaining }, i) => (remaining === 1 ? [i] : []));
      };
      await each('take', checks.slice(0, 500));
      expect(await each('peek', checks)).toEqual([500]);
      await each('take', checks.slice(500));
      expect(await each('peek', checks)).toEqual([soonest]);
    },
  );

  it.each([
    { countDenied: false, most: 20 },
    { countDenied: true, most: 40 },
  ])('of a log has $most entries at most for a limit of 20, countDenied $countDenied', async (options) => {
    const { countDenied, most } = options;
    const check = createCheck({ algorithm: 'sliding-window-log', limit: 20, windowMs: HOUR_MS, countDenied });
    const nowMs = Date.now();
    for (let i = 0; i < 100; i++) await lua.run({ operation: 'take', checks: [check], nowMs: nowMs + i });
    expect(await lua.redis.strlen(check.key)).toBeGreaterThanOrEqual(most * 15);
    expect(await lua.redis.strlen(check.key)).toBeLessThan(most * 15 + 64);
  });

  it('of a log has twice as many entries as its limit at most, however often it is settled', async () => {
    const check = createCheck({ algorithm: 'sliding-window-log', limit: 20, windowMs: HOUR_MS });
    const nowMs = Date.now();
    for (let i = 0; i < 100; i++) {
      const checks = [{ ...check, chargedAtMs: nowMs - ((i * 7) % 100) }];
      await lua.run({ operation: 'settle', checks, nowMs });
    }
    expect(await lua.redis.strlen(check.key)).toBeGreaterThanOrEqual(40 * 15);
    expect(await lua.redis.strlen(check.key)).toBeLessThan(40 * 15 + 64);
  });

  it('of seats has one record for each unit of the limit at most', async () => {
    const check = createCheck({ algorithm: 'concurrency', limit: 20, windowMs: HOUR_MS });
    const seats = Array.from({ length: 60 }, () => next(check));
    for (const operation of ['take', 'renew', 'take'] as const)
      for (const seat of seats) await lua.run({ operation, checks: [seat] });
    expect(await lua.redis.strlen(check.key)).toBeGreaterThanOrEqual(20 * 23);
    expect(await lua.redis.strlen(check.key)).toBeLessThan(20 * 23 + 64);
  });
});
