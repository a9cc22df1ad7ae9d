// The port between the limiter and whatever keeps the counters of one region.
import type { Answer, Check, Operation } from '../counting/check.ts';

export interface CounterCall {
  readonly operation: Operation;
  readonly checks: readonly Check[];
  /** Read what the region announces, too, in the same round trip. The checks are charged whatever that is. */
  readonly withAnnouncement?: boolean | undefined;
  /** For tests; the store's own clock if left out. */
  readonly nowMs?: number | undefined;
}

export interface CounterStore {
  /** Changes all counters of the checks or none. Throws a CounterStoreError if there is no answer to trust. */
  run(call: CounterCall, signal: AbortSignal): Promise<Answer>;
  /** Forgets the counters of these keys. What was ceded stays ceded. */
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

/** The runtime lets this request make no more calls, to nobody: trying again is in vain. */
export class OutOfCalls extends CounterStoreError {
  constructor() {
    super('unavailable', 'this request has made as many calls as it may');
  }
}
