// The port between the limiter and whatever keeps the counters of one region.
import type { Check, Outcome } from './decision.ts';

export interface CounterStore {
  /** Charges all checks or none, atomically. Throws a CounterStoreError when there is no trustworthy answer. */
  take(checks: readonly Check[], signal: AbortSignal): Promise<readonly Outcome[]>;
  /** Resolves if the store answers. */
  ping(signal: AbortSignal): Promise<void>;
}

export type CounterStoreFailure = 'timeout' | 'unavailable' | 'bad-reply';

/** Carries no key, argument or token: it may be logged as it is. */
export class CounterStoreError extends Error {
  readonly failure: CounterStoreFailure;

  constructor(failure: CounterStoreFailure, message: string) {
    super(message);
    this.name = 'CounterStoreError';
    this.failure = failure;
  }
}
