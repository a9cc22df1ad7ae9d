// What is decided about a request, drawn from the outcomes of its checks.
import type { Check, Outcome } from './check.ts';

/** Why a request was let through without having been counted. Listed in docs/operations.md. */
export type DegradedReason = 'timeout' | 'unavailable' | 'bad-reply' | 'no-rules';

export interface CheckResult<C extends Check = Check> {
  readonly check: C;
  readonly outcome: Outcome;
}

export interface CountedDecision<C extends Check = Check> {
  readonly kind: 'counted';
  readonly allowed: boolean;
  /** By the clock of the counters. */
  readonly nowMs: number;
  readonly results: readonly CheckResult<C>[];
}

export type Decision<C extends Check = Check> =
  | CountedDecision<C>
  | { readonly kind: 'degraded'; readonly allowed: true; readonly reason: DegradedReason }
  | { readonly kind: 'unlimited'; readonly allowed: true };

/** The results that denied the request: those of `log` rules never do. */
export function denyingResults<C extends Check>(results: readonly CheckResult<C>[]): CheckResult<C>[] {
  return results.filter(({ check, outcome }) => !outcome.allowed && !check.log);
}

/** The result that clients should read about: the longest wait when denied, else the rule nearest to its limit. */
export function decisiveResult<C extends Check>(
  results: readonly CheckResult<C>[],
): CheckResult<C> | undefined {
  const denied = denyingResults(results);
  if (denied.length > 0) return denied.reduce((a, b) => (waitOf(b) > waitOf(a) ? b : a));
  const enforced = results.filter(({ check }) => !check.log);
  return enforced.reduce<CheckResult<C> | undefined>(
    (nearest, result) => (nearest && headroom(nearest) <= headroom(result) ? nearest : result),
    undefined,
  );
}

const waitOf = ({ outcome }: CheckResult) => outcome.retryAfterMs ?? Number.POSITIVE_INFINITY;
const headroom = ({ check, outcome }: CheckResult) => outcome.remaining / check.limit;
