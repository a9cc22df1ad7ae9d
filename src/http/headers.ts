// What clients read about a decision.
import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  mostRestrictiveFirst,
  untilFreeMs,
} from '../core/decision.ts';
import { rateLimitFields, toSeconds } from './rate-limit-fields.ts';

export interface HeaderOptions {
  /** Which rules a decision was made by is nobody's business in production. */
  readonly isDevelopment: boolean;
}

export function setDecisionHeaders(
  headers: Headers,
  decision: Decision,
  { isDevelopment }: HeaderOptions,
): void {
  if (decision.kind === 'degraded') headers.set('X-Weir-Degraded', decision.reason);
  else if (decision.isStale) headers.set('X-Weir-Degraded', 'stale-rules');
  if (isDevelopment && decision.rulesVersion) headers.set('X-Weir-Rules-Version', decision.rulesVersion);
  if (decision.kind === 'counted') setRateLimitHeaders(headers, decision);
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

/** They have room for one policy. */
function setLegacyHeaders(headers: Headers, decisive: CheckResult, nowMs: number): void {
  const { check, outcome } = decisive;
  headers.set('X-RateLimit-Limit', String(check.limit));
  headers.set('X-RateLimit-Remaining', String(outcome.remaining));
  headers.set('X-RateLimit-Reset', String(toSeconds(nowMs + untilFreeMs(decisive, nowMs))));
  headers.set('X-RateLimit-Cost', String(check.cost));
  if (!outcome.allowed && outcome.retryAfterMs !== undefined)
    headers.set('Retry-After', String(toSeconds(outcome.retryAfterMs)));
}
