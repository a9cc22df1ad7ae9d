// The port to what slows down guessing of tokens.
import type { CounterStore } from './counter-store.ts';

export interface Attempt<Verdict> {
  readonly address: string;
  /** Looks at the token. */
  readonly look: () => Promise<Verdict>;
  /** Counts failures for all isolates. Left out: the first region. */
  readonly store?: CounterStore | undefined;
}

/** The address has failed too often. */
export interface Waiting {
  readonly kind: 'waiting';
  readonly waitMs: number;
}

/**
 * Looks at a token, and counts a verdict `refused` as a failed attempt. While the address must wait, the answer is the
 * same whatever the token is.
 */
export type AttemptGuard = <Verdict extends { readonly kind: string }>(
  attempt: Attempt<Verdict>,
) => Promise<Verdict | Waiting>;
