// What is decided about a request, drawn from the outcomes of its checks.

import type { Credential, RuleCheck } from '../matching/plan.ts';
import type { ListEntry } from '../matching/rule.ts';
import type { Check, Outcome } from './check.ts';

/** Why a request was not counted where and how it should have been. Explained in docs/operations.md. */
export const DEGRADED_REASONS = [
  'timeout',
  'unavailable',
  'bad-reply',
  'script-failed',
  'internal-error',
  'breaker-open',
  'no-rules',
  'stale-rules',
  'caller-unknown',
] as const;
export type DegradedReason = (typeof DEGRADED_REASONS)[number];

/**
 * How far down the ladder a request was decided: counted in the next region; by this isolate alone, as the rules that
 * decided say (`local`, `open`, `closed`: their `onUnavailable`); or refused because this isolate lets no more through
 * uncounted.
 */
export const FALLBACKS = ['next-region', 'local', 'open', 'closed', 'cap'] as const;
export type Fallback = (typeof FALLBACKS)[number];

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
  /** Why it was not counted in the nearest region, but in the next one. */
  readonly failedOver?: DegradedReason | undefined;
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

/** The caller showed a key or token that is not a good one. */
export interface UnverifiedDecision extends ByRules {
  readonly kind: 'unverified';
  readonly allowed: false;
  readonly credential: Credential;
}

/** No region has counted it. */
export interface DegradedDecision extends Partial<ByRules> {
  readonly kind: 'degraded';
  readonly allowed: boolean;
  readonly reason: DegradedReason;
  readonly fallback: Exclude<Fallback, 'next-region'>;
  /** By this isolate's own counters, if they were asked: of what the rules allow it alone. */
  readonly local?: LocalCount | undefined;
}

export interface LocalCount {
  readonly nowMs: number;
  readonly results: readonly CheckResult<RuleCheck>[];
}

export type Decision =
  | CountedDecision
  | ListedDecision
  | UnlimitedDecision
  | UnverifiedDecision
  | DegradedDecision;

/** By the counters of a region, or by those of this isolate; none if nothing was counted. */
export function resultsOf(decision: Decision): readonly CheckResult<RuleCheck>[] {
  if (decision.kind === 'degraded') return decision.local?.results ?? [];
  return decision.kind === 'counted' ? decision.results : [];
}

/** The results that denied the request: those of `log` rules never do. */
export function denyingResults<C extends Check>(results: readonly CheckResult<C>[]): CheckResult<C>[] {
  return results.filter(({ check, outcome }) => !outcome.allowed && !check.log);
}

/**
 * What clients should read about, most restrictive first: the longest wait of those that denied, then whatever lets
 * the fewest more requests like this one pass, then what is free again last. `log` rules have no place in it.
 */
export function mostRestrictiveFirst<C extends Check>(results: readonly CheckResult<C>[]): CheckResult<C>[] {
  return results.filter(({ check }) => !check.log).sort(byRestriction);
}

/** The one result that clients read about if they read of one only. */
export const decisiveResult = <C extends Check>(results: readonly CheckResult<C>[]) =>
  mostRestrictiveFirst(results)[0];

/**
 * How long until a check has room again: for the denied request, if waiting helps it; else until its whole limit is
 * free. By the clock of the counter itself: another region may have counted before or after.
 */
export function untilFreeMs({ outcome }: CheckResult, nowMs: number): number {
  const { allowed, retryAfterMs, resetAtMs } = outcome;
  return !allowed && retryAfterMs !== undefined
    ? retryAfterMs
    : Math.max(0, resetAtMs - (outcome.nowMs ?? nowMs));
}

function byRestriction(a: CheckResult, b: CheckResult): number {
  return (
    descending(waitOf(a), waitOf(b)) ||
    requestsLeft(a) - requestsLeft(b) ||
    b.outcome.resetAtMs - a.outcome.resetAtMs
  );
}

/** Of one that allowed: less than any wait. */
const waitOf = ({ outcome: { allowed, retryAfterMs } }: CheckResult) =>
  allowed ? -1 : (retryAfterMs ?? Number.POSITIVE_INFINITY);
const requestsLeft = ({ check, outcome }: CheckResult) => Math.floor(outcome.remaining / check.cost);
/** Waits may be infinite, so they cannot be subtracted. */
const descending = (a: number, b: number) => (a === b ? 0 : a > b ? -1 : 1);
