// What is told of a decision: rate-limit headers to clients (Retry-After is in the refusal: refusals.ts), and incidents
// to operators.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  type Fallback,
  type Incident,
  mostRestrictiveFirst,
  untilFreeMs,
} from '../core/decision.ts';
import type { CompiledRule } from '../core/matching/compiled-rule.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import type { Identity } from '../identity/identity.ts';
import type { GatewayServices } from './services.ts';

// The fields RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers. They name every policy that
// applied to a request, what it allows, and what is left of it.

/** Whole seconds, rounded up: a client that waits that long has waited long enough. */
export const toSeconds = (ms: number) => Math.ceil(ms / 1000);

/** For both fields together. Proxies might refuse longer headers. */
const MAX_BYTES = 4096;
const SEPARATOR = ', ';

export interface RateLimitFields {
  readonly policy: string;
  readonly limit: string;
}

/**
 * Expects the results most restrictive first, and RateLimit keeps that order: if there is no room for all, the most
 * important ones stay. RateLimit-Policy has a fixed order, the same in every answer.
 */
export function rateLimitFields(results: readonly CheckResult<RuleCheck>[], nowMs: number): RateLimitFields {
  const [only] = results;
  if (only && results.length === 1) return { policy: memberOf(only.check), limit: limitOf(only, nowMs) };
  const members: { readonly policy: string; readonly limit: string; readonly rule: CompiledRule }[] = [];
  let bytes = 0;
  for (const result of results) {
    // While a rule moves between regions, it has two results.
    if (members.some(({ rule }) => rule === result.check.rule)) continue;
    const policy = memberOf(result.check);
    const limit = limitOf(result, nowMs);
    // The text is ASCII, so its length is its size in bytes.
    bytes += policy.length + limit.length + 2 * SEPARATOR.length;
    if (bytes > MAX_BYTES && members.length > 0) break;
    members.push({ policy, limit, rule: result.check.rule });
  }
  return {
    limit: members.map(({ limit }) => limit).join(SEPARATOR),
    policy: members
      .sort((a, b) => a.rule.ordinal - b.rule.ordinal || a.rule.windowSeconds - b.rule.windowSeconds)
      .map(({ policy }) => policy)
      .join(SEPARATOR),
  };
}

/** The text of a policy depends only on the rule, the limit and the window, so the isolate keeps it. */
const policies = new WeakMap<
  CompiledRule,
  { readonly limit: number; readonly windowMs: number; readonly text: string }
>();

function memberOf(check: RuleCheck): string {
  const known = policies.get(check.rule);
  if (known?.limit === check.full.limit && known.windowMs === check.windowMs) return known.text;
  const text = nameOf(check.rule) + policyParameters(check);
  policies.set(check.rule, { limit: check.full.limit, windowMs: check.windowMs, text });
  return text;
}

const nameOf = (rule: CompiledRule): string => `"${rule.policy}"`;

const limitOf = (result: CheckResult<RuleCheck>, nowMs: number): string =>
  `${nameOf(result.check.rule)};r=${result.outcome.remaining};t=${toSeconds(untilFreeMs(result, nowMs))}`;

const policyParameters = ({ algorithm, full, windowMs }: RuleCheck) =>
  traitsOf(algorithm).holdsSeats
    ? `;q=${full.limit};qu="concurrent-requests"`
    : `;q=${full.limit};w=${toSeconds(windowMs)}`;

/** Answers name the version of the rules only in development: the version is not for the public. */
export function setDecisionHeaders(
  headers: Headers,
  decision: Decision,
  { isDevelopment }: { readonly isDevelopment: boolean },
): void {
  if (isDevelopment && decision.rulesVersion) headers.set('X-Weir-Rules-Version', decision.rulesVersion);
  // An isolate that counts alone knows when to retry, but not how much of the limit is left.
  if (decision.kind !== 'counted') return;
  const { nowMs } = decision;
  const enforced = mostRestrictiveFirst(decision.results);
  const [decisive] = enforced;
  if (!decisive) return;
  const { policy, limit } = rateLimitFields(enforced, nowMs);
  headers.set('RateLimit-Policy', policy);
  headers.set('RateLimit', limit);
  // The X-RateLimit headers have room for one policy.
  headers.set('X-RateLimit-Limit', String(decisive.check.full.limit));
  headers.set('X-RateLimit-Remaining', String(decisive.outcome.remaining));
  headers.set('X-RateLimit-Reset', String(toSeconds(nowMs + untilFreeMs(decisive, nowMs))));
  headers.set('X-RateLimit-Cost', String(decisive.check.cost));
}

/** Says what went wrong and which fallback decided. */
export function setIncidentHeaders(headers: Headers, { reason, fallback }: Incident): void {
  headers.set('X-Weir-Degraded', reason);
  if (fallback) headers.set('X-Weir-Fallback', fallback);
}

// What operators learn.

/** What went wrong with this decision; the gravest incident, if there are several. */
export function incidentOf(decision: Decision, identity?: Identity): Incident | undefined {
  if (decision.kind === 'degraded') return decision;
  if (decision.kind === 'counted' && decision.failedOver)
    return { reason: decision.failedOver, fallback: fallbackOf(decision) };
  if (decision.isStale) return { reason: 'stale-rules' };
  if (decision.delayedBy) return { reason: decision.delayedBy };
  // The look-up failed, so the caller was counted by IP, in the default tier.
  return identity?.unknown ? { reason: 'caller-unknown' } : undefined;
}

const fallbackOf = ({ results }: CountedDecision): Fallback =>
  results.some(({ check }) => isStandIn(check)) ? 'stand-in' : 'next-region';

export function report(
  { log, incidentCounts }: Pick<GatewayServices, 'incidentCounts' | 'log'>,
  region: string,
  decision: Decision,
  incident: Incident | undefined,
): void {
  if (incident) {
    incidentCounts.add({ ...incident, region });
    log.degraded({ ...incident, region });
  }
  if (decision.kind === 'counted') reportShadow(log, decision.results, region);
}

/** Reports the requests that shadow rules would have denied. */
export function reportShadow(
  log: Pick<GatewayServices['log'], 'shadow'>,
  results: readonly CheckResult<RuleCheck>[],
  region: string,
): void {
  for (const { check, outcome } of results)
    if (check.isShadow && !outcome.allowed) log.shadow(check.rule.name, region);
}
