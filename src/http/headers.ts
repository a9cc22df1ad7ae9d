// Writes the rate-limit headers that clients read.
import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  decisiveResult,
  denyingResults,
  mostRestrictiveFirst,
  untilFreeMs,
} from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Incident } from './incident-counts.ts';
import { rateLimitFields, toSeconds } from './rate-limit-fields.ts';

export interface HeaderOptions {
  /** Answers name the version of the rules only in development: the version is not for the public. */
  readonly isDevelopment: boolean;
}

export function setDecisionHeaders(
  headers: Headers,
  decision: Decision,
  { isDevelopment }: HeaderOptions,
): void {
  if (isDevelopment && decision.rulesVersion) headers.set('X-Weir-Rules-Version', decision.rulesVersion);
  if (decision.kind === 'counted') setRateLimitHeaders(headers, decision);
  else if (decision.kind === 'degraded' && decision.local) setRetryAfter(headers, decision.local.results);
}

/** Says what went wrong and which fallback decided. */
export function setIncidentHeaders(headers: Headers, { reason, fallback }: Omit<Incident, 'region'>): void {
  headers.set('X-Weir-Degraded', reason);
  if (fallback) headers.set('X-Weir-Fallback', fallback);
}

/** An isolate that counts alone knows when to retry, but not how much of the limit is left. */
function setRetryAfter(headers: Headers, results: readonly CheckResult<RuleCheck>[]): void {
  const decisive = decisiveResult(denyingResults(results));
  const retryAfterMs = decisive?.outcome.retryAfterMs;
  if (retryAfterMs !== undefined) headers.set('Retry-After', String(toSeconds(retryAfterMs)));
}

function setRateLimitHeaders(headers: Headers, { results, nowMs }: CountedDecision): void {
  const enforced = mostRestrictiveFirst(results);
  const [decisive] = enforced;
  if (!decisive) return;
  const { policy, limit } = rateLimitFields(enforced, nowMs);
  headers.set('RateLimit-Policy', policy);
  headers.set('RateLimit', limit);
  setLegacyHeaders(headers, decisive, nowMs);
}

/** The X-RateLimit headers have room for one policy. */
function setLegacyHeaders(headers: Headers, decisive: CheckResult<RuleCheck>, nowMs: number): void {
  const { check, outcome } = decisive;
  headers.set('X-RateLimit-Limit', String(check.full.limit));
  headers.set('X-RateLimit-Remaining', String(outcome.remaining));
  headers.set('X-RateLimit-Reset', String(toSeconds(nowMs + untilFreeMs(decisive, nowMs))));
  headers.set('X-RateLimit-Cost', String(check.cost));
  if (!outcome.allowed && outcome.retryAfterMs !== undefined)
    headers.set('Retry-After', String(toSeconds(outcome.retryAfterMs)));
}
