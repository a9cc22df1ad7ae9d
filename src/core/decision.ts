// The words of a decision: checks go in, outcomes come back, a decision is drawn from them.
import type { Algorithm, Rule } from './rule.ts';

/** One rule, one subject, one cost. */
export interface Check {
  readonly rule: Rule;
  readonly key: string;
  readonly algorithm: Algorithm;
  readonly limit: number;
  readonly windowMs: number;
  readonly cost: number;
}

export interface Outcome {
  readonly allowed: boolean;
  readonly limit: number;
  /** Exactly this many more units would pass now. */
  readonly remaining: number;
  readonly resetAtMs: number;
  /** 0 when allowed; undefined when no wait will ever help. */
  readonly retryAfterMs: number | undefined;
}

/** Why a request was let through without having been counted. Listed in docs/operations.md. */
export type DegradedReason = 'timeout' | 'unavailable' | 'bad-reply' | 'no-rules';

export type Decision =
  | { readonly kind: 'counted'; readonly allowed: boolean; readonly results: readonly CheckResult[] }
  | { readonly kind: 'degraded'; readonly allowed: true; readonly reason: DegradedReason }
  | { readonly kind: 'unlimited'; readonly allowed: true };

export interface CheckResult {
  readonly check: Check;
  readonly outcome: Outcome;
}

/** The result that clients should read about: the longest wait when denied, else the rule nearest to its limit. */
export function decisiveResult(results: readonly CheckResult[]): CheckResult | undefined {
  const denied = results.filter((result) => !result.outcome.allowed);
  if (denied.length > 0) return denied.reduce((a, b) => (waitOf(b) > waitOf(a) ? b : a));
  return results.reduce<CheckResult | undefined>(
    (nearest, result) => (nearest && headroom(nearest) <= headroom(result) ? nearest : result),
    undefined,
  );
}

const waitOf = ({ outcome }: CheckResult) => outcome.retryAfterMs ?? Number.POSITIVE_INFINITY;
const headroom = ({ outcome }: CheckResult) => outcome.remaining / outcome.limit;
