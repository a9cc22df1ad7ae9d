// A limiter of one isolate alone, on a clock that the test sets, and random limits for it.
import fc from 'fast-check';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { OnUnavailable } from '../../src/core/matching/rule.ts';
import { createLocalLimiter } from '../../src/limiter/fallback.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { nextSeatId } from '../redis/engines.ts';
import { createRuleCheck, type RuleCheckShape, START_MS } from './rule-checks.ts';

/** A limiter on a clock that the test sets. */
export function startLocal({ capPerSecond = 0, isolates = 1, regions = 1 } = {}) {
  let nowMs = START_MS;
  const limiter = createLocalLimiter({ now: () => nowMs, capPerSecond });
  const ledger = createLedger(() => {});
  return {
    at(atMs: number) {
      nowMs = atMs;
      return this;
    },
    decide: (...checks: RuleCheck[]) =>
      limiter.decide({ reason: 'timeout', checks, ledger, isolates, regions }),
    /** With its own ledger. */
    decideFor: (check: RuleCheck) => {
      const own = createLedger((error) => {
        throw error;
      });
      const { allowed } = limiter.decide({
        reason: 'timeout',
        checks: [check],
        ledger: own,
        isolates,
        regions,
      });
      return { allowed, ledger: own };
    },
    ledger,
    decideWithoutRules: () => limiter.decide({ reason: 'no-rules', ledger, isolates, regions }),
  };
}

export const checkFor = (onUnavailable: OnUnavailable, { rule, ...shape }: RuleCheckShape = {}) =>
  createRuleCheck({ ...shape, rule: { ...rule, onUnavailable } });

export const asNext = (check: RuleCheck): RuleCheck =>
  check.algorithm === 'concurrency' ? { ...check, seatId: nextSeatId() } : check;

export const shape = {
  limit: fc.integer({ min: 1, max: 12 }),
  windowMs: fc.oneof(fc.integer({ min: 1, max: 60 }), fc.constantFrom(997, 60_000)),
  extra: fc.option(fc.integer({ min: 1, max: 12 }), { nil: undefined }),
  cost: fc.integer({ min: 1, max: 4 }),
};
export const gaps = fc.array(fc.oneof(fc.nat({ max: 30 }), fc.constantFrom(0, 100, 997)), { maxLength: 60 });
export const withExtra = (algorithm: AlgorithmId, extra: number | undefined) =>
  algorithm === 'concurrency' ? {} : { extra };
