// Stores that note what they are asked and fail as they are told, and ledgers of what they were asked to charge.
import type { Check, Operation } from '../../src/core/counting/check.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import { createMemoryCounters } from '../../src/core/counting/memory-counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/ports/counter-store.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

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

export const seat = createRuleCheck({ id: 'seat', algorithm: 'concurrency', windowMs: 30_000 });
export const spending = createRuleCheck({ id: 'spending' });
export const refunded = createRuleCheck({ id: 'refunded', rule: { refundOnError: true } });
export const queued = createRuleCheck({
  id: 'queued',
  algorithm: 'leaky-bucket',
  rule: { action: 'throttle' },
});
export const settled = createRuleCheck({ id: 'settled', cost: 5, rule: { costFromOrigin: true } });

/** A ledger that has these charges, and seats that these stores may hold; and what was reported on the way. */
export function openLedger({ store, checks = [], silent = [], asked = checks }: Noted) {
  const errors: unknown[] = [];
  const ledger = createLedger((error) => void errors.push(error));
  if (store) for (const check of checks) ledger.noteCharge(store, check, START_MS);
  for (const one of silent) ledger.noteDoubt(one, asked);
  return { errors, ledger };
}

interface Noted {
  readonly store?: CounterStore;
  readonly checks?: readonly RuleCheck[];
  /** Were asked to charge all of it, or this, and have not answered. */
  readonly silent?: readonly CounterStore[];
  readonly asked?: readonly RuleCheck[];
}

/** As it was charged: nothing more is wanted, and the time of the charge is named. */
export const charged = (check: RuleCheck, changes: Partial<RuleCheck> = {}): RuleCheck => ({
  ...check,
  want: 0,
  chargedAtMs: START_MS,
  ...changes,
});
