// Compares each algorithm with its definition, computed the slow way from all admissions; and with an adversary that
// looks for a moment at which more passes than the limit allows.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { DEFINITIONS, isBucket } from '../core/whole-limit.ts';
import { rounds } from '../rounds.ts';
import {
  ask,
  createCheck,
  ENGINE_NAMES,
  ENGINES,
  type Engine,
  look,
  next,
  WITHOUT_SEATS,
} from './engines.ts';
import { type Admission, admissionsOf, age, ruleOf, steps, unitsOf } from './histories.ts';

const RUNS = { 'its twin': rounds(240), 'the script': rounds(48) };

/** What the definition says about a check, after these admissions. */
const admits = (past: readonly Admission[], nowMs: number, check: Check): boolean =>
  DEFINITIONS[check.algorithm]([...past, { atMs: nowMs, units: check.cost }], nowMs, check);

describe.each(ENGINE_NAMES)('on %s', (name) => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await ENGINES[name]();
  });
  afterAll(() => engine[Symbol.asyncDispose]());
  const numRuns = RUNS[name];

  it.each(ALGORITHM_IDS)('%s admits what its definition allows', async (algorithm) => {
    await fc.assert(
      fc.asyncProperty(ruleOf(algorithm), steps, async (rule, history) => {
        const { attempts } = await age(engine, rule, history);
        attempts.forEach(({ atMs, check, outcome }, i) => {
          const past = admissionsOf(attempts.slice(0, i));
          expect(outcome.allowed).toBe(admits(past, atMs, check));
        });
      }),
      { numRuns: numRuns / 4 },
    );
  });

  it.each(WITHOUT_SEATS)('%s counts settled units as its definition does', async (algorithm) => {
    const later = fc.record({
      charge: fc.nat(),
      cost: fc.integer({ min: 1, max: 12 }),
      waitMs: fc.oneof(fc.nat({ max: 60 }), fc.constantFrom(997, 60_000)),
      afterMs: fc.oneof(fc.nat({ max: 60 }), fc.constantFrom(997, 60_000)),
    });
    await fc.assert(
      fc.asyncProperty(ruleOf(algorithm), steps, later, async (rule, history, { charge, cost, ...wait }) => {
        const { check, attempts, nowMs } = await age(engine, rule, history);
        const past = admissionsOf(attempts);
        const chargedAtMs = past[charge % past.length]?.atMs ?? nowMs;
        const settledAtMs = nowMs + wait.waitMs;
        // No more than the capacity, so that no debt reaches its bound.
        const units = Math.min(cost, rule.limit, rule.extra ?? rule.limit);
        await ask(engine, 'settle', { ...check, cost: units, chargedAtMs }, settledAtMs);
        if (!isBucket(algorithm)) past.push({ atMs: chargedAtMs, units });
        else past.push({ atMs: settledAtMs, units });
        const atMs = settledAtMs + wait.afterMs;
        for (let asked = 1; asked <= 13; asked++) {
          const probe = next(check, { cost: asked });
          const { allowed } = await ask(engine, 'peek', probe, atMs);
          expect(allowed).toBe(admits(past, atMs, probe));
        }
      }),
      { numRuns: numRuns / 4 },
    );
  });

  it.each(['sliding-window-log', 'sliding-window-buckets'] as const)(
    '%s never admits more than the limit in any true window',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(ruleOf(algorithm), steps, async (rule, history) => {
          const admitted = admissionsOf((await age(engine, rule, history)).attempts);
          for (const { atMs: endMs } of admitted) {
            const inside = admitted.filter(({ atMs }) => atMs > endMs - rule.windowMs && atMs <= endMs);
            expect(unitsOf(inside)).toBeLessThanOrEqual(rule.limit);
          }
        }),
        { numRuns },
      );
    },
  );

  it.each(['token-bucket', 'leaky-bucket', 'gcra'] as const)(
    '%s never admits more in any interval than its burst plus the units that come back in it',
    async (algorithm) => {
      await fc.assert(
        fc.asyncProperty(ruleOf(algorithm), steps, async ({ extra, ...rule }, history) => {
          const { limit, windowMs } = rule;
          const admitted = admissionsOf((await age(engine, { ...rule, extra }, history)).attempts);
          admitted.forEach((from, i) => {
            admitted.slice(i).forEach((to, j) => {
              const units = unitsOf(admitted.slice(i, i + j + 1));
              const allowed = (extra ?? limit) * windowMs + limit * (to.atMs - from.atMs);
              expect(units * windowMs).toBeLessThanOrEqual(allowed);
            });
          });
        }),
        { numRuns: numRuns / 2 },
      );
    },
  );

  it('token-bucket, gcra and leaky-bucket with the same burst answer every request alike', async () => {
    const options = fc.record({
      countDenied: fc.boolean(),
      blockMs: fc.option(fc.integer({ min: 1, max: 90 })),
    });
    await fc.assert(
      fc.asyncProperty(
        ruleOf('token-bucket'),
        options,
        steps,
        async (rule, { countDenied, blockMs }, history) => {
          const answers = await Promise.all(
            (['token-bucket', 'gcra', 'leaky-bucket'] as const).map(async (algorithm) => {
              const asked = { ...rule, algorithm, countDenied, blockMs: blockMs ?? undefined };
              const { attempts } = await age(engine, asked, history);
              return attempts.map(({ atMs, outcome }) => ({ atMs, ...outcome, delayMs: 0 }));
            }),
          );
          expect(answers[1]).toEqual(answers[0]);
          expect(answers[2]).toEqual(answers[0]);
        },
      ),
      { numRuns: numRuns / 2 },
    );
  });

  it('sliding-window-buckets frees units at most one bucket later than the log, and never earlier', async () => {
    const shape = fc.record({
      limit: fc.integer({ min: 1, max: 12 }),
      bucketMs: fc.integer({ min: 1, max: 20 }),
      buckets: fc.integer({ min: 1, max: 12 }),
    });
    await fc.assert(
      fc.asyncProperty(
        shape,
        steps,
        fc.nat({ max: 300 }),
        async ({ limit, bucketMs, buckets }, history, afterMs) => {
          const rule = { limit, windowMs: bucketMs * buckets };
          const inBuckets = { ...rule, algorithm: 'sliding-window-buckets', extra: buckets } as const;
          const { check, attempts, nowMs } = await age(engine, inBuckets, history);
          const log = createCheck({ ...rule, algorithm: 'sliding-window-log' });
          for (const { atMs, units } of admissionsOf(attempts))
            expect((await ask(engine, 'take', next(log, { cost: units }), atMs)).allowed).toBe(true);
          const byLog = (await look(engine, log, nowMs + afterMs)).remaining;
          expect((await look(engine, check, nowMs + afterMs)).remaining).toBeLessThanOrEqual(byLog);
          const later = await look(engine, check, nowMs + afterMs + bucketMs);
          expect(later.remaining).toBeGreaterThanOrEqual(byLog);
        },
      ),
      { numRuns },
    );
  });
});
