// Stores that note every call and fail on command, and ledgers of the charges made there.
import type { Check, Operation, RefundCheck } from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { type CounterStore, CounterStoreError, operationsBy } from '../../src/core/ports/region.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

export interface Asked {
  readonly operation: Operation;
  readonly checks: readonly (Check | RefundCheck)[];
}

export interface NotingStore extends CounterStore {
  readonly asked: Asked[];
  /** This many of the next calls do their work, but their answers are lost. */
  losesAnswers: number;
}

export function createNotingStore(losesAnswers = 0): NotingStore {
  const counters = createMemoryCounters();
  const store: NotingStore = {
    asked: [],
    losesAnswers,
    ...operationsBy(async (operation, { checks }) => {
      // Answers later, so that work that nobody waits for is missing at the end.
      for (let i = 0; i < 20; i += 1) await undefined;
      store.asked.push({ operation, checks });
      const answer = runChecks(operation, checks, START_MS, counters);
      if (store.losesAnswers <= 0) return answer;
      store.losesAnswers -= 1;
      throw new CounterStoreError('timeout', 'x');
    }),
    reset: async () => {},
    probe: async () => {},
  };
  return store;
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

/** A ledger with these charges, and with seats that these stores may hold; and everything that was reported. */
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
  /** Stores that were asked to charge, and have not answered. */
  readonly silent?: readonly CounterStore[];
  readonly asked?: readonly RuleCheck[];
}

/** The check of a charge that a refund or a settlement changes. */
export const charged = (check: RuleCheck, changes: Partial<RuleCheck & RefundCheck> = {}) => ({
  ...check,
  chargedAtMs: START_MS,
  ...changes,
});
