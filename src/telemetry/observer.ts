// Turns the events that the gateway reports into sums. Nothing here waits, fails or depends on a later event.
import { type CheckResult, type Decision, resultsOf } from '../core/decision.ts';
import { type Caller, subjectOf } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { AnsweredRequest, DecidedRequest } from '../core/ports/telemetry.ts';
import type { Collected } from '../core/telemetry/collected.ts';
import { createObservedSeries } from './observed-series.ts';

export interface ObserverOptions extends Collected {
  readonly now: () => number;
  readonly clockMs: () => number;
}

/** A subject is near its limit when a fifth of it is left. */
const NEAR_PARTS = 5;
const NOBODY: Caller = { ip: 'unknown', address: 'unknown' };

type Result = CheckResult<RuleCheck>;

export function createObserver({ sums, denials, usage, crossings, now, clockMs }: ObserverOptions) {
  let staleSinceMs: number | undefined;
  const decisions = sums.histogram('decision');
  const series = createObservedSeries(sums);

  const addChecked = (result: Result) => series.ofRule(result.check.rule, resultOf(result)).add();

  const addCheck = (result: Result, { caller = NOBODY, route, decision }: DecidedRequest) => {
    const { check, outcome } = result;
    const { rule } = check;
    addChecked(result);
    const isDenied = !outcome.allowed;
    // An isolate that counts alone does not know what a subject has used.
    const alerts = rule.alertAt.length > 0 && decision.kind === 'counted';
    if (check.isShadow || !(isDenied || alerts)) return;
    const who = subjectOf(rule.scope, caller);
    if (alerts) crossings.add(result, who, outcome.nowMs ?? decision.nowMs);
    if (!isDenied) return;
    const { scope, id: subject } = who;
    denials.add({ nowMs: now(), ruleId: rule.id, ruleName: rule.name, scope, subject, route });
  };

  const addUsage = (results: readonly Result[], caller: Caller | undefined, counts: Counts) => {
    const { tenantId = '', userId = '', apiKeyId = '' } = caller ?? {};
    const { requests } = counts;
    const costs: { ruleId: string; cost: number }[] = [];
    let most = 0;
    for (const { check } of results) {
      // A bound counts the same requests as the counter of its rule.
      const cost = check.isShadow || check.rule.isBound ? undefined : counts.costOf(check);
      if (cost === undefined) continue;
      if (Math.abs(cost) > Math.abs(most)) most = cost;
      if (cost !== 0 || requests !== 0) costs.push({ ruleId: check.rule.id, cost });
    }
    const total = requests > 0 && results.length === 0 ? 1 : most;
    if (total !== 0 || requests !== 0) costs.push({ ruleId: '', cost: total });
    if (costs.length > 0) usage.add({ nowMs: now(), tenantId, userId, apiKeyId, requests, costs });
  };

  return {
    decided(request: DecidedRequest): void {
      const { decision, incident, region, caller } = request;
      series.ofRoute(request.route).requests(region, kindOf(decision)).add();
      decisions.observe(clockMs() - request.startedAtMs);
      const results = resultsOf(decision);
      for (const result of results) addCheck(result, request);
      if (incident) sums.counter('fallback', incident.fallback ?? 'none', incident.reason).add();
      staleSinceMs = decision.isStale ? (staleSinceMs ?? now()) : undefined;
      if (decision.allowed) addUsage(results, caller, CHARGED);
    },

    answered({ decision, caller, startedAtMs, status, cost, isRefunded, route }: AnsweredRequest): void {
      const { origin, responses } = series.ofRoute(route);
      origin.observe(clockMs() - startedAtMs);
      responses(status).add();
      if (isRefunded) addUsage(resultsOf(decision), caller, REFUNDED);
      else if (cost !== undefined) addUsage(resultsOf(decision), caller, settledAt(cost));
    },

    /** Adds the results of shadow rules that were counted after the response. */
    shadowed(results: readonly Result[]): void {
      for (const result of results) addChecked(result);
    },

    /** How long this isolate has used rules that it could not confirm. */
    rulesAgeMs: () => (staleSinceMs === undefined ? 0 : Math.max(0, now() - staleSinceMs)),
  };
}

interface Counts {
  readonly requests: number;
  /** Undefined: the usage of this rule does not change. */
  readonly costOf: (check: RuleCheck) => number | undefined;
}

const CHARGED: Counts = { requests: 1, costOf: ({ cost }) => cost };
const REFUNDED: Counts = {
  requests: 0,
  costOf: ({ rule, cost }) => (rule.refundOnError ? -cost : undefined),
};
const settledAt = (real: number): Counts => ({
  requests: 0,
  costOf: ({ rule, cost }) => (rule.costFromOrigin ? real - cost : undefined),
});

function kindOf(decision: Decision): string {
  if (decision.kind !== 'counted') return decision.kind;
  return decision.allowed ? 'admitted' : 'denied';
}

function resultOf({ check, outcome }: Result): string {
  if (!outcome.allowed) return check.isShadow ? 'would-deny' : 'denied';
  return outcome.remaining * NEAR_PARTS <= check.full.limit ? 'near-limit' : 'admitted';
}
