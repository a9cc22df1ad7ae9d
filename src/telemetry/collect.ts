// Turns the events that the gateway reports into sums. Nothing here waits, fails or depends on a later event.

import { type CheckResult, type Decision, denyingResults, resultsOf } from '../core/decision.ts';
import { type Caller, type CallerIds, idsOf, subjectOf, UNKNOWN_CALLER } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type {
  AnsweredRequest,
  CheckedCall,
  CorrectedUsage,
  DecidedRequest,
} from '../core/ports/telemetry.ts';
import type { TelemetrySums } from '../core/telemetry/metrics.ts';
import type { DeniedRequest, DenyingCheck } from '../core/telemetry/records.ts';

export interface CollectorOptions extends TelemetrySums {
  readonly now: () => number;
  readonly clockMs: () => number;
}

/** A subject is near its limit when a fifth of it is left. */
const NEAR_PARTS = 5;

/** Of statuses, by their hundreds. A text made for each request would cost more. */
const CLASSES = ['0xx', '1xx', '2xx', '3xx', '4xx', '5xx'];
/** In the place of the name of a route, in samples of denials in the log. */
const CHECK_ROUTE = '/_weir/check';

type Results = readonly CheckResult<RuleCheck>[];
type Charge = CorrectedUsage['charges'][number];
/** What a check costs its subject. */
type CostOf = (check: RuleCheck) => number;

interface ChecksContext {
  readonly caller?: Caller | undefined;
  readonly route?: string;
  /** By the clock of the counters; undefined if no region has counted the checks. */
  readonly countedAtMs?: number | undefined;
  readonly requestId?: string | undefined;
}

interface UsageChange {
  readonly atMs: number;
  readonly who: CallerIds;
  /** One for each rule: `cost` was noted before, `realCost` is right now. */
  readonly charges: readonly Charge[];
  /** 1 for a request that was not noted before. */
  readonly requests: 0 | 1;
}

export type Collector = ReturnType<typeof createCollector>;

export function createCollector(options: CollectorOptions) {
  const { sums, denials, requests, usage, crossings, now, clockMs } = options;
  let staleSinceMs: number | undefined;
  const decisions = sums.series('decision');

  /**
   * A rule with several limits counts a request once, by the limit that was hardest on it. Returns how many requests a
   * rule has denied to its subject in this minute: the least of them, if several rules denied the request.
   */
  const addChecks = (
    results: Results,
    { caller = UNKNOWN_CALLER, route = '', countedAtMs, requestId }: ChecksContext,
  ): number => {
    let fewest = Number.POSITIVE_INFINITY;
    for (let i = 0; i < results.length; i += 1) {
      const result = results[i];
      if (!result) continue;
      const { id: ruleId, name: ruleName, scope, alertAt } = result.check.rule;
      const worst = isRepeated(results, i) ? undefined : worstOf(results, ruleId);
      if (worst) sums.series('checks', ruleName, worst).add();
      const hasAlerts = alertAt.length > 0 && countedAtMs !== undefined && !result.check.isShadow;
      if (worst !== DENIED && !hasAlerts) continue;
      const counted = subjectOf(scope, caller);
      const subject = { scope: counted.scope, subject: counted.id };
      if (hasAlerts) crossings.add(result, subject, result.outcome.nowMs ?? countedAtMs);
      if (worst !== DENIED) continue;
      const rule = { ruleId, ruleName, route, requestId };
      const row = denials.rowAt(now(), { ...subject, ...idsOf(caller) }, rule);
      row.count += 1;
      fewest = Math.min(fewest, row.count);
    }
    return fewest;
  };

  /**
   * Changes the usage of each rule, and of the caller under '': a request uses as much as the rule for which it cost
   * most, and one unit if no rule counts it.
   */
  const addUsage = ({ atMs, who, charges, requests }: UsageChange) => {
    const total = { ruleId: '', cost: 0, realCost: requests as number };
    for (let i = 0; i <= charges.length; i += 1) {
      const { ruleId, cost, realCost } = charges[i] ?? total;
      total.cost = Math.max(total.cost, cost);
      total.realCost = Math.max(total.realCost, realCost);
      if (requests === 0 && realCost === cost) continue;
      const row = usage.rowAt(atMs, who, { ruleId });
      row.requests += requests;
      row.cost += realCost - cost;
    }
  };

  const addAdmitted = (results: Results, caller = UNKNOWN_CALLER) =>
    addUsage({ atMs: now(), who: idsOf(caller), charges: chargesOf(results, FREE, CHARGED), requests: 1 });

  const addDecision = ({ decision, incident, startedAtMs }: Omit<CheckedCall, 'subjects'>) => {
    decisions.add(clockMs() - startedAtMs);
    if (incident) sums.series('fallback', incident.fallback ?? 'none', incident.reason).add();
    staleSinceMs = decision.isStale ? (staleSinceMs ?? now()) : undefined;
  };

  return {
    decided(request: DecidedRequest): void {
      const { decision, region, route, caller } = request;
      sums.series('requests', region, route, kindOf(decision)).add();
      addDecision(request);
      const results = resultsOf(decision);
      const requestId = request.refused?.requestId;
      const nth = addChecks(results, { caller, route, countedAtMs: countedAt(decision), requestId });
      if (decision.allowed) addAdmitted(results, caller);
      // If no rule denied the request, nothing says how many were like it, so it belongs to the fair sample.
      else if (request.refused) requests.add(nth, () => toDeniedRequest(request, now()));
    },

    checked(call: CheckedCall): void {
      const { decision, region, subjects } = call;
      sums.series('checkCalls', region, kindOf(decision)).add();
      addDecision(call);
      const countedAtMs = countedAt(decision);
      for (const { caller, results } of subjects) {
        addChecks(results, { caller, route: CHECK_ROUTE, countedAtMs });
        if (decision.allowed) addAdmitted(results, caller);
      }
    },

    /** Counts in the hour of the charge, which may be long ago. */
    corrected({ chargedAtMs, charges, ...who }: CorrectedUsage): void {
      addUsage({ atMs: chargedAtMs, who, charges, requests: 0 });
    },

    answered({ decision, caller, startedAtMs, status, cost, isRefunded, route }: AnsweredRequest): void {
      sums.series('origin', route).add(clockMs() - startedAtMs);
      sums.series('originResponses', route, CLASSES[Math.floor(status / 100)] ?? 'other').add();
      if (!isRefunded && cost === undefined) return;
      const realCostOf = cost === undefined || isRefunded ? REFUNDED : settledAt(cost);
      const charges = chargesOf(resultsOf(decision), CHARGED, realCostOf);
      addUsage({ atMs: now(), who: idsOf(caller ?? UNKNOWN_CALLER), charges, requests: 0 });
    },

    /** Adds the results of shadow rules that were counted after the response. */
    shadowed: (results: Results): void => void addChecks(results, {}),

    /** How long this isolate has used rules that it could not confirm. */
    rulesAgeMs: () => (staleSinceMs === undefined ? 0 : Math.max(0, now() - staleSinceMs)),
  };
}

/** The longest name of a method that is not made up. */
const MAX_METHOD = 20;
/** Rules that denied one request. */
const MAX_RULES = 10;

function toDeniedRequest(request: DecidedRequest, atMs: number): DeniedRequest {
  const { decision, refused, route, region, caller = UNKNOWN_CALLER } = request;
  const { requestId = '', method = '', problem } = refused ?? {};
  return {
    ...{ requestId, atMs, status: problem?.status ?? 0, code: problem?.code ?? '' },
    ...{ method: method.slice(0, MAX_METHOD), route, region },
    ...idsOf(caller),
    rules: denyingResults(resultsOf(decision))
      .slice(0, MAX_RULES)
      .map((result) => toDenyingCheck(result, caller)),
  };
}

function toDenyingCheck({ check, outcome }: Results[number], caller: Caller): DenyingCheck {
  const { id, name, resources, scope } = check.rule;
  const counted = subjectOf(scope, caller);
  return {
    ...{ id, name, resource: resources.join(', ') },
    ...{ scope: counted.scope, subject: counted.id },
    ...{ limit: check.full.limit, windowSeconds: check.windowMs / 1_000, cost: check.cost },
    ...{ remaining: outcome.remaining, retryAfterMs: outcome.retryAfterMs ?? null },
  };
}

/** An isolate that counts alone does not know what a subject has used. */
const countedAt = (decision: Decision) => (decision.kind === 'counted' ? decision.nowMs : undefined);

const FREE: CostOf = () => 0;
const CHARGED: CostOf = ({ cost }) => cost;
const REFUNDED: CostOf = ({ rule, cost }) => (rule.refundOnError ? 0 : cost);
const settledAt =
  (real: number): CostOf =>
  ({ rule, cost }) =>
    rule.costFromOrigin ? real : cost;

/** One for each rule that is not a shadow rule. */
function chargesOf(results: Results, costOf: CostOf, realCostOf: CostOf): Charge[] {
  const charges: Charge[] = [];
  for (let i = 0; i < results.length; i += 1) {
    const check = results[i]?.check;
    if (!check || check.isShadow || isRepeated(results, i)) continue;
    charges.push({ ruleId: check.rule.id, cost: costOf(check), realCost: realCostOf(check) });
  }
  return charges;
}

/** Whether an earlier result is of the same rule: a rule has a result for each of its limits. */
function isRepeated(results: Results, i: number): boolean {
  const id = results[i]?.check.rule.id;
  for (let k = 0; k < i; k += 1) if (results[k]?.check.rule.id === id) return true;
  return false;
}

const DENIED = 'denied';
/** From the mildest. */
const RESULTS = ['admitted', 'near-limit', 'would-deny', DENIED] as const;

/** The worst result of a rule, among its limits. */
function worstOf(results: Results, ruleId: string): string {
  let worst = 0;
  for (const result of results)
    if (result.check.rule.id === ruleId) worst = Math.max(worst, RESULTS.indexOf(resultOf(result)));
  return RESULTS[worst] ?? DENIED;
}

function kindOf(decision: Decision): string {
  if (decision.kind !== 'counted') return decision.kind;
  return decision.allowed ? 'admitted' : 'denied';
}

function resultOf({ check, outcome }: Results[number]): (typeof RESULTS)[number] {
  if (!outcome.allowed) return check.isShadow ? 'would-deny' : DENIED;
  return outcome.remaining * NEAR_PARTS <= check.full.limit ? 'near-limit' : 'admitted';
}
