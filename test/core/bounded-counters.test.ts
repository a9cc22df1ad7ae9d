// Bounded counters count like unbounded ones, as long as they have room for all subjects.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check, Operation } from '../../src/core/counting/check.ts';
import type { Counter, Counters } from '../../src/core/counting/counters.ts';
import { createBoundedCounters, createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import { rounds } from '../rounds.ts';

const START_MS = 1_800_000_000_000;

const counter = (state: number): Counter => ({
  algorithm: 'gcra',
  state,
  blockedUntilMs: 0,
  expiresAtMs: START_MS + 1_000,
});

const step = fc.record({
  operation: fc.constantFrom<Operation>('take', 'take', 'take', 'peek', 'refund'),
  subject: fc.nat({ max: 2 }),
  rule: fc.nat({ max: 2 }),
  cost: fc.integer({ min: 1, max: 4 }),
  advanceMs: fc.oneof(fc.nat({ max: 40 }), fc.constantFrom(999, 1_000, 60_000)),
});

const rule = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_IDS),
  limit: fc.integer({ min: 1, max: 6 }),
  windowMs: fc.constantFrom(10, 50, 1_000),
  blockMs: fc.option(fc.integer({ min: 1, max: 2_000 }), { nil: undefined }),
});

describe('bounded counters', () => {
  it('count like unbounded ones after any history', () => {
    const rules = fc.array(rule, { minLength: 3, maxLength: 3 });
    fc.assert(
      fc.property(rules, fc.array(step, { maxLength: 60 }), (chosen, steps) => {
        const [bounded, unbounded] = [createBoundedCounters(9), createMemoryCounters()];
        let nowMs = START_MS;
        for (const { operation, subject, rule: i, cost, advanceMs } of steps) {
          nowMs += advanceMs;
          const picked = chosen[i] ?? { algorithm: 'gcra' as const, limit: 1, windowMs: 1 };
          const seatId = picked.algorithm === 'concurrency' ? 'seat-00000000000' : undefined;
          const check: Check = { ...picked, key: `key-${subject}`, id: `rule-${i}`, cost, seatId };
          const answerOf = (counters: Counters) => runChecks(operation, [check], nowMs, counters);
          expect(answerOf(bounded)).toEqual(answerOf(unbounded));
        }
      }),
      { numRuns: rounds(500) },
    );
  });

  it('forget the counter that was used longest ago', () => {
    const counters = createBoundedCounters(2);
    counters.save('a', 'rule', counter(1), START_MS);
    counters.save('b', 'rule', counter(2), START_MS);
    expect(counters.get('a', 'rule')).toEqual(counter(1));
    counters.save('c', 'rule', counter(3), START_MS);
    expect(['a', 'b', 'c'].map((key) => counters.get(key, 'rule')?.state)).toEqual([1, undefined, 3]);
  });

  it('hold only the last 1,000 of 100,000 subjects', () => {
    const counters = createBoundedCounters(1_000);
    const keys = Array.from({ length: 100_000 }, (_, i) => `subject-${i}`);
    for (const key of keys) counters.save(key, 'rule', counter(1), START_MS);
    const held = keys.filter((key) => counters.get(key, 'rule'));
    expect([held.length, held[0]]).toEqual([1_000, 'subject-99000']);
  });

  it('keep rules of one subject, and subjects of one rule, apart', () => {
    const counters = createBoundedCounters(9);
    counters.save('key', 'a', counter(1), START_MS);
    counters.save('key', 'b', counter(2), START_MS);
    counters.save('other', 'a', counter(3), START_MS);
    expect([counters.get('key', 'a'), counters.get('key', 'b'), counters.get('other', 'a')]).toEqual([
      counter(1),
      counter(2),
      counter(3),
    ]);
  });

  it('forget a counter that is saved as undefined', () => {
    const counters = createBoundedCounters(9);
    counters.save('key', 'rule', counter(1), START_MS);
    counters.save('key', 'rule', undefined, START_MS);
    expect(counters.get('key', 'rule')).toBeUndefined();
  });
});
