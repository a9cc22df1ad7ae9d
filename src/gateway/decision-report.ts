// Reports a decision to operators: incidents, and what shadow rules would have done.
import type { CheckResult, CountedDecision, Decision, Fallback } from '../core/decision.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import type { Incident } from '../http/log.ts';
import type { Identity } from '../identity/identity.ts';
import type { Services } from './services.ts';

/** What went wrong with this decision; the gravest incident, if there are several. */
export function incidentOf(
  decision: Decision,
  identity: Identity | undefined,
): Omit<Incident, 'region'> | undefined {
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
  { log, incidentCounts }: Pick<Services, 'incidentCounts' | 'log'>,
  region: string,
  decision: Decision,
  incident: Omit<Incident, 'region'> | undefined,
): void {
  if (incident) {
    incidentCounts.add({ ...incident, region });
    log.degraded({ ...incident, region });
  }
  if (decision.kind === 'counted') reportShadow(log, decision.results, region);
}

/** Reports the requests that shadow rules would have denied. */
export function reportShadow(
  log: Pick<Services['log'], 'shadow'>,
  results: readonly CheckResult<RuleCheck>[],
  region: string,
): void {
  for (const { check, outcome } of results)
    if (check.isShadow && !outcome.allowed) log.shadow(check.rule.name, region);
}
