// Decides a request: one call to the counters of one region, under one deadline. When there is no
// answer in time the request goes on (fail-open), and the decision says why.
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import type { Check, Decision, DegradedReason } from '../core/decision.ts';

export interface Limiter {
  decide(store: CounterStore, checks: readonly Check[]): Promise<Decision>;
}

export interface LimiterOptions {
  /** For the whole decision, the retry after a lost script cache included. */
  readonly deadlineMs: number;
}

export function createLimiter({ deadlineMs }: LimiterOptions): Limiter {
  return {
    async decide(store, checks) {
      if (checks.length === 0) return { kind: 'unlimited', allowed: true };
      try {
        const outcomes = await store.take(checks, AbortSignal.timeout(deadlineMs));
        return {
          kind: 'counted',
          allowed: outcomes.every((outcome) => outcome.allowed),
          results: checks.map((check, i) => ({ check, outcome: must(outcomes[i]) })),
        };
      } catch (error) {
        return { kind: 'degraded', allowed: true, reason: reasonOf(error) };
      }
    },
  };
}

function reasonOf(error: unknown): DegradedReason {
  if (error instanceof CounterStoreError) return error.failure;
  throw error;
}

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the store answered for fewer checks than it was given');
  return value;
}
