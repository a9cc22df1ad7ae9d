// Stores that note what they are asked and fail as they are told, and decisions that were made with them.
import type { Check, Operation, Outcome } from '../../src/core/counting/check.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import type { CountedDecision, DegradedDecision } from '../../src/core/counting/decision.ts';
import { createMemoryCounters } from '../../src/core/counting/memory-counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/ports/counter-store.ts';
import { createCharges } from '../../src/limiter/charges.ts';
import { admitted, createRuleCheck, START_MS } from './rule-checks.ts';

export interface Asked {
  readonly operation: Operation;
  readonly checks: readonly Check[];
}

export interface NotingStore extends CounterStore {
  readonly asked: Asked[];
  /** So many of the next calls do all they should, but their answers are lost. */
  losesAnswers: number;
}

export function createNotingStore(losesAnswers = 0): NotingStore {
  const counters = createMemoryCounters();
  return {
    asked: [],
    losesAnswers,
    async run({ operation, checks }) {
      // Later than now: what nobody waits for is not done when it is looked at.
      for (let i = 0; i < 20; i += 1) await undefined;
      this.asked.push({ operation, checks });
      const answer = runChecks(operation, checks, START_MS, counters);
      if (this.losesAnswers <= 0) return answer;
      this.losesAnswers -= 1;
      throw new CounterStoreError('timeout', 'x');
    },
    reset: async () => {},
    probe: async () => {},
  };
}

export const lease = createRuleCheck({ id: 'lease', algorithm: 'concurrency', windowMs: 30_000 });
export const spending = createRuleCheck({ id: 'spending' });
export const refunded = createRuleCheck({ id: 'refunded', rule: { refundOnError: true } });
export const queued = createRuleCheck({
  id: 'queued',
  algorithm: 'leaky-bucket',
  rule: { action: 'throttle' },
});
export const settled = createRuleCheck({ id: 'settled', cost: 5, rule: { costFromOrigin: true } });

/** Counted there; nowhere, if left out. */
export const resultsFor = (checks: readonly RuleCheck[], outcome: Outcome = admitted, store?: CounterStore) =>
  checks.map((check) => ({ check, outcome, store }));

/** Admitted, if not told otherwise. */
export const counted = (changes: Partial<CountedDecision>): CountedDecision => ({
  kind: 'counted',
  allowed: true,
  nowMs: START_MS,
  results: [],
  unanswered: [],
  rulesVersion: 'v',
  isStale: false,
  ...changes,
});

export const degraded = (changes: Partial<DegradedDecision>): DegradedDecision => ({
  kind: 'degraded',
  allowed: false,
  reason: 'timeout',
  fallback: 'closed',
  unanswered: [],
  ...changes,
});

/** And what was reported on the way. */
export function chargesOf(decision: Parameters<typeof createCharges>[0]['decision']) {
  const errors: unknown[] = [];
  return { errors, charges: createCharges({ decision, onError: (error) => void errors.push(error) }) };
}

/** As it was charged: nothing more is wanted, and the time of the charge is named. */
export const charged = (check: RuleCheck, changes: Partial<RuleCheck> = {}): RuleCheck => ({
  ...check,
  want: 0,
  chargedAtMs: START_MS,
  ...changes,
});
