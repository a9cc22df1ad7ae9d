// The port between the limiter and the counters of one region.
import type { Answer, Check, Operation } from '../counting/check.ts';

export interface CounterCall {
  readonly operation: Operation;
  readonly checks: readonly Check[];
  /** Also read the region's announcement, in the same round trip. The checks are charged whatever it says. */
  readonly withAnnouncement?: boolean | undefined;
  /** For tests; the store's own clock if left out. */
  readonly nowMs?: number | undefined;
}

export interface CounterStore {
  /** Changes all counters of the checks, or none. Throws a CounterStoreError if there is no reliable answer. */
  run(call: CounterCall, signal: AbortSignal): Promise<Answer>;
  /** Forgets the counters of these keys. What was ceded stays ceded. */
  reset(keys: readonly string[], signal: AbortSignal): Promise<void>;
  /** Resolves if the store can count. Makes a call like a request's, on counters of its own. */
  probe(signal: AbortSignal): Promise<void>;
}

/** `script-failed`: the store is alive, but cannot run this call; if it was a probe, it cannot run any call. */
export type CounterStoreFailure = 'timeout' | 'unavailable' | 'bad-reply' | 'script-failed';

/** Carries no key, argument or token, so it may be logged as it is. */
export class CounterStoreError extends Error {
  readonly failure: CounterStoreFailure;

  constructor(failure: CounterStoreFailure, message: string) {
    super(message);
    this.name = 'CounterStoreError';
    this.failure = failure;
  }
}

/** This request has used up its calls. Trying again is useless. */
export class OutOfCalls extends CounterStoreError {
  constructor() {
    super('unavailable', 'this request has made as many calls as it may');
  }
}
