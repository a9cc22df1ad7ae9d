// What clients read about a decision.
import type { CheckResult, Decision } from '../core/decision.ts';
import { decisiveResult } from '../core/decision.ts';

/** Whole seconds, rounded up: whoever waits that long has waited long enough. */
export const toSeconds = (ms: number) => Math.ceil(ms / 1000);

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
  if (decision.kind !== 'counted') return;
  const decisive = decisiveResult(decision.results);
  if (decisive) setRateLimitHeaders(headers, decisive);
}

function setRateLimitHeaders(headers: Headers, { check, outcome }: CheckResult): void {
  headers.set('X-RateLimit-Limit', String(check.limit));
  headers.set('X-RateLimit-Remaining', String(outcome.remaining));
  headers.set('X-RateLimit-Reset', String(toSeconds(outcome.resetAtMs)));
  headers.set('X-RateLimit-Cost', String(check.cost));
  if (!outcome.allowed && outcome.retryAfterMs !== undefined)
    headers.set('Retry-After', String(toSeconds(outcome.retryAfterMs)));
}
