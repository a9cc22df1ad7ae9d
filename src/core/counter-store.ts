// The port between the limiter and whatever keeps the counters of one region.
import type { Answer, Check, Operation } from './check.ts';

export interface CounterCall {
  readonly operation: Operation;
  readonly checks: readonly Check[];
  /**
   * The key that remembers the answer (see `requestKey`): the same request is charged once, and gets the same
   * answer, for as long as its longest window. Never made from what a client can choose.
   */
  readonly requestKey?: string | undefined;
  /** If another announcement than this one stands in the region, nothing is charged and the answer is that news. */
  readonly expects?: string | undefined;
  /** For tests; the store's own clock if left out. */
  readonly nowMs?: number | undefined;
}

export interface CounterStore {
  /** Changes all counters of the checks or none. Throws a CounterStoreError if there is no answer to trust. */
  run(call: CounterCall, signal: AbortSignal): Promise<Answer>;
  /** Forgets the counters of these keys. */
  reset(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /** Resolves if the store can count: one call as every request makes it, on counters that nobody else has. */
  probe(signal: AbortSignal): Promise<void>;
}

/** `script-failed`: the store is alive, but cannot do this call; no call at all, if it was a probe. */
export type CounterStoreFailure = 'timeout' | 'unavailable' | 'bad-reply' | 'script-failed';

/** Carries no key, argument or token: it may be logged as it is. */
export class CounterStoreError extends Error {
  readonly failure: CounterStoreFailure;

  constructor(failure: CounterStoreFailure, message: string) {
    super(message);
    this.name = 'CounterStoreError';
    this.failure = failure;
  }
}
