// What is decided about a request, drawn from the outcomes of its checks.
import type { Check, Outcome } from './check.ts';
import type { RuleCheck } from './plan.ts';
import type { ListEntry } from './rule.ts';

/** Why a request was not counted. Listed in docs/operations.md. */
export type DegradedReason = 'timeout' | 'unavailable' | 'bad-reply' | 'no-rules' | 'stale-rules';

export interface CheckResult<C extends Check = Check> {
  readonly check: C;
  readonly outcome: Outcome;
}

/** The rules that a decision was made by. */
interface ByRules {
  readonly rulesVersion: string;
  /** Newer ones have been announced, but could not be read in time. */
  readonly isStale: boolean;
}

export interface CountedDecision extends ByRules {
  readonly kind: 'counted';
  readonly allowed: boolean;
  /** By the clock of the counters. */
  readonly nowMs: number;
  readonly results: readonly CheckResult<RuleCheck>[];
}

export interface ListedDecision extends ByRules {
  readonly kind: 'listed';
  readonly allowed: boolean;
  readonly list: ListEntry['list'];
}

export interface UnlimitedDecision extends ByRules {
  readonly kind: 'unlimited';
  readonly allowed: true;
}

export interface DegradedDecision extends Partial<ByRules> {
  readonly kind: 'degraded';
  /** False if a rule says that nobody passes uncounted. */
  readonly allowed: boolean;
  readonly reason: DegradedReason;
}

export type Decision = CountedDecision | ListedDecision | UnlimitedDecision | DegradedDecision;

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
