import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Borders } from '../../src/core/counting/calendar.ts';
import type { Check, Operation } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import { rounds } from '../rounds.ts';
import { type AnyCall, runAny, withAdditions } from '../shared/any-call.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: true });
});
afterAll(() => lua[Symbol.asyncDispose]());

const START_MS = 1_800_000_000_000;
/** Mostly takes. */
const OPERATIONS = [
  'take',
  'take',
  'take',
  'take',
  'peek',
  'refund',
  'settle',
  'renew',
  'transfer',
  'recall',
] as const;
const SEATS = ['seat-aaaaaaaaaaa', 'seat-bbbbbbbbbbb', 'seat-ccccccccccc'];

/** Rules that often meet their limits and borders. */
const rule = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_IDS),
  limit: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(100, 997, 1_000_000)),
  windowMs: fc.oneof(fc.integer({ min: 1, max: 50 }), fc.constantFrom(1_000, 60_000, 86_400_000, 999_983)),
  extra: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  countDenied: fc.boolean(),
  blockMs: fc.option(fc.integer({ min: 1, max: 2_000 }), { nil: undefined }),
  isShadow: fc.option(fc.constant(true), { nil: undefined }),
  // Calendar windows, whose lengths differ.
  lengthsMs: fc.option(fc.array(fc.constantFrom(7, 28, 31, 1_000, 60_001), { minLength: 2, maxLength: 4 }), {
    nil: undefined,
  }),
});

const step = fc.record({
  operation: fc.constantFrom<Operation>(...OPERATIONS),
  rules: fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 }),
  cost: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 14 })),
  want: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 5 })),
  seat: fc.constantFrom(...SEATS),
  // Several limits can read one counter: keys of one user with different tiers, old and new rules.
  limitTimes: fc.constantFrom(1, 1, 1, 2, 15, 0.1, 0.5),
  transfer: fc.record({
    owner: fc.constantFrom('eu', 'eu', 'us'),
    termMs: fc.constantFrom(1, 40, 1_000, 60_000),
    holdMs: fc.constantFrom(1, 20, 60_000),
  }),
  // Ties, small and large steps, long gaps, and a clock that goes back.
  advanceMs: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 1, max: 40 }),
    fc.constantFrom(999, 1_000, 1_001, 30_000, 60_000, 86_400_000, -1, -500, -60_000),
  ),
  // How far the clock of the isolate is ahead of the server's.
  skewMs: fc.constantFrom(0, 0, 3, -3, 40, -40),
  // Also future moments, because the clock may have gone back.
  chargedAgoMs: fc.oneof(
    fc.constant(0),
    fc.integer({ min: 0, max: 100 }),
    fc.constantFrom(1_000, 60_000, -1, -500, -60_000),
  ),
});

/** The borders that an isolate with this clock would send. */
function bordersAround(lengthsMs: readonly number[], atMs: number): Borders {
  const roundMs = lengthsMs.reduce((sum, one) => sum + one, 0);
  const borders = [atMs - (atMs % roundMs) - roundMs];
  for (let i = 0; i < 4 * lengthsMs.length; i += 1)
    borders.push((borders.at(-1) ?? 0) + (lengthsMs[i % lengthsMs.length] ?? 0));
  const start = borders.findLastIndex((borderMs) => borderMs <= atMs);
  const [before = 0, startMs = 0, endMs = 0, after = 0] = borders.slice(start - 1, start + 3);
  return [before, startMs, endMs, after];
}

let subjects = 0;

describe('the script and its model', () => {
  it('answer the same, field by field, after any history', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(rule, { minLength: 4, maxLength: 4 }),
        fc.array(step, { minLength: 1, maxLength: 25 }),
        async (rules, steps) => {
          subjects += 1;
          const memory = createMemoryCounters();
          let nowMs = START_MS;
          for (const {
            operation,
            rules: used,
            cost,
            want,
            seat,
            transfer,
            limitTimes,
            advanceMs,
            skewMs,
            chargedAgoMs,
          } of steps) {
            nowMs += advanceMs;
            const checks = used.flatMap((i): Check[] => {
              const found = rules[i];
              if (!found) return [];
              const { lengthsMs, ...chosen } = found;
              const holdsSeat = chosen.algorithm === 'concurrency';
              if (operation === 'renew' && !holdsSeat) return [];
              if (operation === 'settle' && holdsSeat) return [];
              return [
                withAdditions(
                  operation,
                  {
                    ...chosen,
                    // Two of the rules share a key. The others have their own.
                    key: `model:{${subjects}}:${Math.max(1, i)}`,
                    id: `rule-${i}`,
                    extra: holdsSeat ? undefined : chosen.extra,
                    seatId: holdsSeat ? seat : undefined,
                    countDenied: chosen.countDenied && !holdsSeat,
                    limit: Math.min(
                      Math.max(1, Math.round(chosen.limit * limitTimes)),
                      chosen.algorithm === 'sliding-window-log' || holdsSeat ? 100 : 1e6,
                    ),
                    borders: lengthsMs && bordersAround(lengthsMs, nowMs + skewMs),
                    cost,
                  },
                  { units: want, chargedAtMs: nowMs - chargedAgoMs, transfer },
                ),
              ];
            });
            if (checks.length === 0) continue;
            const call = { operation, checks, nowMs } as AnyCall;
            const expected = runAny(call, nowMs, memory);
            expect(await lua.run(call)).toEqual(expected);
          }
        },
      ),
      { numRuns: rounds(400) },
    );
  }, 240_000);

  it.each([
    ['a take that shortens its counter forgets no other counter', 'take', 2, 98],
    ['a refund that shortens its counter forgets counters that have expired', 'refund', 1, 99],
  ] as const)('%s', async (_, operation, limitTimes, remaining) => {
    subjects += 1;
    const memory = createMemoryCounters();
    const rule = { key: `model:{${subjects}}`, algorithm: 'gcra', cost: 1 } as const;
    const short: Check = { ...rule, id: 'short', limit: 100, windowMs: 30 };
    const long: Check = { ...rule, id: 'long', limit: 2 * limitTimes, windowMs: 60_000 };
    const run = async (asked: 'take' | 'refund', check: Check, nowMs: number) => {
      const expected = runChecks(asked, [check], nowMs, memory);
      expect(await lua.run({ operation: asked, checks: [check], nowMs })).toEqual(expected);
      return expected.outcomes[0]?.remaining;
    };
    await run('take', short, START_MS);
    await run('take', { ...long, limit: 2, cost: 2 }, START_MS);
    await run(operation, long, START_MS + 2 * IDLE_MS);
    // Only a clock that goes back shows which counters are still stored.
    expect(await run('take', short, START_MS)).toBe(remaining);
  });
});
