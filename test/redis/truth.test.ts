// The numbers in an answer are promises. They hold to the unit and to the millisecond, after any history, if nobody else
// calls and the limit stays. Before that it may have changed.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Check, Outcome } from '../../src/core/counting/check.ts';
import { rounds } from '../rounds.ts';
import {
  ask,
  countAdmitted,
  createCheck,
  ENGINE_NAMES,
  ENGINES,
  type Engine,
  holdsSeats,
  look,
  next,
  START_MS,
  wouldPass,
} from './engines.ts';
import { age, anyRule, ruleOf, steps, stepsOfManyLimits } from './histories.ts';

const RUNS = { 'its twin': rounds(300), 'the script': rounds(50) };
const settleable = anyRule.filter(({ algorithm }) => !holdsSeats(algorithm));
/** Above this, units are not tried one by one. */
const FEW = 15;

describe.each(ENGINE_NAMES)('on %s', (name) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await ENGINES[name]();
  });
  afterAll(() => engine[Symbol.asyncDispose]());
  const numRuns = RUNS[name];

  it('remaining = r admits exactly r more units', async () => {
    await fc.assert(
      fc.asyncProperty(anyRule, stepsOfManyLimits, fc.nat({ max: 60 }), async (rule, history, afterMs) => {
        const { check, nowMs } = await age(engine, rule, history);
        const atMs = nowMs + afterMs;
        const { remaining } = await look(engine, check, atMs);
        const passes = (cost: number) => wouldPass(engine, [next(check, { cost })], atMs);
        if (remaining <= FEW) expect(await countAdmitted(engine, check, atMs, FEW)).toBe(remaining);
        if (remaining > 0) expect(await passes(remaining)).toBe(true);
        expect(await passes(remaining + 1)).toBe(false);
      }),
      { numRuns },
    );
  });

  it('a caller that waits for the retry time of a denial passes, and 1 ms earlier it does not', async () => {
    await fc.assert(
      fc.asyncProperty(anyRule, stepsOfManyLimits, async (rule, history) => {
        const { attempts, nowMs } = await age(engine, rule, history);
        const last = attempts.at(-1);
        if (last) await expectExactWait(engine, [last.check], [last.outcome], nowMs);
      }),
      { numRuns },
    );
  });

  it('the longest wait of several rules is exact for all of them together', async () => {
    const request = fc.record({
      waitMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 700 })),
      cost: fc.integer({ min: 1, max: 6 }),
    });
    const rules = fc.array(fc.tuple(anyRule, fc.boolean(), fc.boolean()), { minLength: 2, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(
        rules,
        fc.array(request, { minLength: 1, maxLength: 20 }),
        async (chosen, requests) => {
          const first = createCheck(ruleOfOne(chosen));
          const checks = chosen.map(([rule, sharesKey, isShadow], i) =>
            createCheck({
              ...rule,
              id: `rule-${i}`,
              ...(sharesKey ? { key: first.key } : {}),
              isShadow: isShadow && i > 0,
            }),
          );
          let nowMs = START_MS;
          for (const { waitMs, cost } of requests) {
            nowMs += waitMs;
            const asked = checks.map((check) => next(check, { cost }));
            const { outcomes } = await engine.run({ operation: 'take', checks: asked, nowMs });
            await expectExactWait(engine, asked, outcomes, nowMs);
          }
        },
      ),
      { numRuns: numRuns / 5 },
    );
  });

  it('at resetAtMs the whole limit is free, and 1 ms earlier it is not', async () => {
    await fc.assert(
      fc.asyncProperty(anyRule, stepsOfManyLimits, async (rule, history) => {
        const { check, nowMs } = await age(engine, rule, history);
        const { remaining: capacity } = await look(engine, createCheck(rule), nowMs);
        const { resetAtMs } = await look(engine, check, nowMs);
        expect((await look(engine, check, resetAtMs)).remaining).toBe(capacity);
        if (resetAtMs > nowMs)
          expect((await look(engine, check, resetAtMs - 1)).remaining).toBeLessThan(capacity);
      }),
      { numRuns },
    );
  });

  it('a take that is given back at once leaves no trace', async () => {
    await fc.assert(
      fc.asyncProperty(anyRule, steps, fc.integer({ min: 1, max: 12 }), async (rule, history, cost) => {
        const { check, nowMs } = await age(
          engine,
          { ...rule, blockMs: undefined, countDenied: false },
          history,
        );
        const before = await look(engine, check, nowMs);
        const request = next(check, { cost });
        const { allowed, remaining } = await ask(engine, 'take', request, nowMs);
        expect(remaining).toBe(allowed ? before.remaining - cost : before.remaining);
        if (allowed) await ask(engine, 'refund', { ...request, chargedAtMs: nowMs }, nowMs);
        expect(await look(engine, check, nowMs)).toEqual(before);
      }),
      { numRuns },
    );
  });

  it('remaining, waits and resetAtMs are exact after any history whose costs were settled', async () => {
    const settlement = fc.record({ ago: fc.nat({ max: 9 }), cost: fc.integer({ min: 1, max: 30 }) });
    await fc.assert(
      fc.asyncProperty(
        settleable,
        stepsOfManyLimits,
        fc.array(settlement, { maxLength: 4 }),
        fc.nat({ max: 60 }),
        async (rule, history, settlements, afterMs) => {
          const { check, attempts, nowMs } = await age(engine, rule, history);
          for (const { ago, cost } of settlements) {
            const chargedAtMs = attempts.at(-1 - ago)?.atMs ?? nowMs;
            const settled = await ask(engine, 'settle', { ...check, cost, chargedAtMs }, nowMs);
            const { remaining, resetAtMs } = await look(engine, check, nowMs);
            expect(settled).toMatchObject({ remaining, resetAtMs });
            expect(settled.chargedUnits).toBeLessThanOrEqual(cost);
          }
          const atMs = nowMs + afterMs;
          const { remaining, resetAtMs } = await look(engine, check, atMs);
          const { remaining: capacity } = await look(engine, createCheck(rule), nowMs);
          for (const cost of [1, 2, capacity]) {
            const checks = [next(check, { cost })];
            const { outcomes } = await engine.run({ operation: 'peek', checks, nowMs: atMs });
            expect(outcomes[0]?.allowed).toBe(cost <= remaining);
            await expectExactWait(engine, checks, outcomes, atMs);
          }
          if (remaining <= FEW) expect(await countAdmitted(engine, check, atMs, FEW)).toBe(remaining);
          expect((await look(engine, check, resetAtMs)).remaining).toBe(capacity);
          if (resetAtMs > atMs)
            expect((await look(engine, check, resetAtMs - 1)).remaining).toBeLessThan(capacity);
        },
      ),
      { numRuns },
    );
  });

  it('requests that wait their turn leave a leaky bucket at its pace', async () => {
    await fc.assert(
      fc.asyncProperty(ruleOf('leaky-bucket'), steps, async (rule, history) => {
        const { attempts } = await age(engine, rule, history);
        let free = BigInt(START_MS) * BigInt(rule.limit);
        for (const { atMs, check, outcome } of attempts.filter((attempt) => attempt.outcome.allowed)) {
          const now = BigInt(atMs) * BigInt(rule.limit);
          const turn = free > now ? free : now;
          expect(atMs + outcome.delayMs).toBe(Number((turn + BigInt(rule.limit) - 1n) / BigInt(rule.limit)));
          free = turn + BigInt((check.cost + outcome.granted) * rule.windowMs);
        }
      }),
      { numRuns },
    );
  });
});

const ruleOfOne = (chosen: readonly (readonly [Parameters<typeof createCheck>[0], ...unknown[]])[]) =>
  chosen[0]?.[0] ?? { algorithm: 'fixed-window' as const, limit: 1, windowMs: 1 };

/** The waits in these outcomes are exact. */
async function expectExactWait(
  engine: Engine,
  checks: readonly Check[],
  outcomes: readonly Outcome[],
  nowMs: number,
): Promise<void> {
  const denials = outcomes.filter(({ allowed }, i) => !allowed && !checks[i]?.isShadow);
  if (denials.length === 0) return;
  const waits = denials.map(({ retryAfterMs }) => retryAfterMs ?? Number.POSITIVE_INFINITY);
  const longestMs = Math.max(...waits);
  expect(Math.min(...waits)).toBeGreaterThan(0);
  if (longestMs === Number.POSITIVE_INFINITY) {
    const longAfterMs = nowMs + 10 * Math.max(...checks.map(({ windowMs }) => windowMs));
    expect(await wouldPass(engine, checks, longAfterMs)).toBe(false);
    return;
  }
  expect(await wouldPass(engine, checks, nowMs + longestMs)).toBe(true);
  expect(await wouldPass(engine, checks, nowMs + longestMs - 1)).toBe(false);
}
