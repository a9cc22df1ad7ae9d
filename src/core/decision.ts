// The decision about a request, made from the outcomes of its checks.

import type { Check, Outcome } from './counting/check.ts';
import type { Credential, RuleCheck } from './matching/plan.ts';
import type { ListEntry } from './matching/rule.ts';

/** Why a request was not counted as usual. docs/operations.md explains each reason. */
export const DEGRADED_REASONS = [
  'timeout',
  'unavailable',
  'bad-reply',
  'script-failed',
  'internal-error',
  'breaker-open',
  'slow',
  'no-rules',
  'stale-rules',
  'caller-unknown',
] as const;
export type DegradedReason = (typeof DEGRADED_REASONS)[number];

/**
 * Which fallback decided a request. `next-region`: another region counted it. `stand-in`: another region counted a rule
 * in place of the region that owns the counter. `local`, `open`, `closed`: this isolate decided alone, by the
 * `onUnavailable` of the rules. `cap`: this isolate lets no more uncounted requests through.
 */
export const FALLBACKS = ['next-region', 'stand-in', 'local', 'open', 'closed', 'cap'] as const;
export type Fallback = (typeof FALLBACKS)[number];

export interface CheckResult<C extends Check = Check> {
  readonly check: C;
  readonly outcome: Outcome;
}

/** The rules that made a decision. */
interface ByRules {
  readonly rulesVersion: string;
  /** No region has confirmed the rules lately, or the isolate could not load newer rules in time. */
  readonly isStale: boolean;
  /** Why the request waited longer for regions than it should have. */
  readonly delayedBy?: DegradedReason | undefined;
}

/** Without a `fallback`, the request was decided as usual, but late, or by rules or a caller that may be out of date. */
export interface Incident {
  readonly reason: DegradedReason;
  readonly fallback?: Fallback | undefined;
}

export interface CountedDecision extends ByRules {
  readonly kind: 'counted';
  readonly allowed: boolean;
  /** By the clock of the counters. */
  readonly nowMs: number;
  readonly results: readonly CheckResult<RuleCheck>[];
  /** Why the next region has counted the request instead of the nearest. */
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

/** The caller showed an invalid key or token, or several keys. */
export interface UnverifiedDecision extends ByRules {
  readonly kind: 'unverified';
  readonly allowed: false;
  readonly credential: Credential | 'several-keys';
}

/** The caller showed a credential that Weir may not look up now. */
export interface OverAllowanceDecision extends ByRules {
  readonly kind: 'over-allowance';
  readonly allowed: false;
  readonly credential: Credential;
  readonly retryAfterMs: number;
}

/** No region has counted the request. */
export interface DegradedDecision extends Partial<ByRules> {
  readonly kind: 'degraded';
  readonly allowed: boolean;
  readonly reason: DegradedReason;
  readonly fallback: Exclude<Fallback, 'next-region' | 'stand-in'>;
  /** The result of this isolate's own counters, if it asked them. */
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
  | OverAllowanceDecision
  | DegradedDecision;

/** A decision without the rules that made it. */
export type Unstamped = {
  [K in Decision['kind']]: Omit<Extract<Decision, { kind: K }>, keyof ByRules>;
}[Decision['kind']];

/** Most decisions are counted ones. Their fields are written out: `outcomeWith` explains why. */
export function stamped(
  decision: Unstamped,
  rulesVersion: string,
  isStale: boolean,
  delayedBy?: DegradedReason,
): Decision {
  if (decision.kind !== 'counted') return { ...decision, rulesVersion, isStale, delayedBy };
  const { kind, allowed, nowMs, results, failedOver } = decision;
  return { kind, allowed, nowMs, results, failedOver, rulesVersion, isStale, delayedBy };
}

/** The results of a region's counters or of this isolate's; empty if nothing was counted. */
export function resultsOf(decision: Decision): readonly CheckResult<RuleCheck>[] {
  if (decision.kind === 'degraded') return decision.local?.results ?? [];
  return decision.kind === 'counted' ? decision.results : [];
}

/** How long the request must wait for its turn; 0 if no rule throttles it. */
export const delayOf = (decision: Decision): number =>
  Math.max(
    0,
    ...resultsOf(decision)
      .filter(({ check }) => check.rule.action === 'throttle' && !check.isShadow)
      .map(({ outcome }) => outcome.delayMs),
  );

/** The results that denied the request. Shadow rules never deny. */
export function denyingResults<C extends Check>(results: readonly CheckResult<C>[]): CheckResult<C>[] {
  return results.filter(isDenying);
}

export const isDenying = ({ check, outcome }: CheckResult): boolean => !outcome.allowed && !check.isShadow;

/**
 * The results that clients read about, most restrictive first: the longest wait among the denials, then the fewest
 * further requests like this one, then the latest reset. Shadow rules are left out.
 */
export function mostRestrictiveFirst<C extends Check>(
  results: readonly CheckResult<C>[],
): readonly CheckResult<C>[] {
  const [only] = results;
  if (only && results.length === 1 && !only.check.isShadow) return results;
  return results.filter(({ check }) => !check.isShadow).sort(byRestriction);
}

/** The result for headers that have room for one. */
export const decisiveResult = <C extends Check>(results: readonly CheckResult<C>[]) =>
  mostRestrictiveFirst(results)[0];

/**
 * How long until a check has room again: for the denied request if waiting helps, else until the whole limit is free.
 * By the clock of the counter itself, because another region may have counted it at another time.
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

/** -1 for a check that allowed, so that it sorts after every wait. */
const waitOf = ({ outcome: { allowed, retryAfterMs } }: CheckResult) =>
  allowed ? -1 : (retryAfterMs ?? Number.POSITIVE_INFINITY);
const requestsLeft = ({ check, outcome }: CheckResult) => Math.floor(outcome.remaining / check.cost);
/** Waits may be infinite, so they cannot be subtracted. */
const descending = (a: number, b: number) => (a === b ? 0 : a > b ? -1 : 1);
