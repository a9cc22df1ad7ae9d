// Decides a request: one call to the counters of one region, under one deadline. When there is no
// answer in time the request goes on (fail-open), and the decision says why.

import type { Check } from '../core/check.ts';
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import { type Decision, type DegradedReason, denyingResults } from '../core/decision.ts';

export interface Limiter {
  decide<C extends Check>(store: CounterStore, checks: readonly C[]): Promise<Decision<C>>;
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
        const call = { operation: 'take', checks } as const;
        const { nowMs, outcomes } = await store.run(call, AbortSignal.timeout(deadlineMs));
        const results = checks.map((check, i) => ({ check, outcome: must(outcomes[i]) }));
        return { kind: 'counted', allowed: denyingResults(results).length === 0, nowMs, results };
      } catch (error) {
        return { kind: 'degraded', allowed: true, reason: reasonOf(error) };
      }
    },
  };
}

/** Whatever went wrong, a bug included: no request fails because of the limiter. */
function reasonOf(error: unknown): DegradedReason {
  return error instanceof CounterStoreError ? error.failure : 'unavailable';
}

function must<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the store answered for fewer checks than it was given');
  return value;
}
