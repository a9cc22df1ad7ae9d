// Turns the events that the gateway reports into sums. Nothing here waits, fails or depends on a later event.

import { type CheckResult, type Decision, resultsOf } from '../core/decision.ts';
import { type Caller, subjectOf } from '../core/matching/caller.ts';
import type { CompiledRule } from '../core/matching/compiled-rule.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type {
  AnsweredRequest,
  CheckedCall,
  CorrectedUsage,
  DecidedRequest,
} from '../core/ports/telemetry.ts';
import type { Collected, CounterSeries, HistogramSeries, MetricSums } from '../core/telemetry/metrics.ts';

// Finds the series of a request by its rules, its route and its region. It finds a known series without building its
// text.

interface RouteSeries {
  readonly origin: HistogramSeries;
  /** By region and by the kind of decision. */
  requests(region: string, kind: string): CounterSeries;
  /** By the class of the status. */
  responses(status: number): CounterSeries;
}

export function createObservedSeries(sums: MetricSums) {
  const ofRules = new WeakMap<CompiledRule, Map<string, CounterSeries>>();
  const ofRoutes = new Map<string, RouteSeries>();

  const createRuleCounter = (rule: CompiledRule, result: string): CounterSeries => {
    const known = ofRules.get(rule) ?? new Map<string, CounterSeries>();
    ofRules.set(rule, known);
    return keep(known, result, sums.counter('checks', sums.nameOf('rule', rule.name), result));
  };
  /** The number of routes with a name of their own is bounded, and so is this map. */
  const findRoute = (route: string): RouteSeries => {
    const name = sums.nameOf('route', route);
    return ofRoutes.get(name) ?? keep(ofRoutes, name, createRouteSeries(sums, name));
  };

  return {
    ofRule: (rule: CompiledRule, result: string): CounterSeries =>
      ofRules.get(rule)?.get(result) ?? createRuleCounter(rule, result),
    ofRoute: (route: string): RouteSeries => ofRoutes.get(route) ?? findRoute(route),
  };
}

function createRouteSeries(sums: MetricSums, route: string): RouteSeries {
  const byRegion = new Map<string, Map<string, CounterSeries>>();
  const byClass = new Map<number, CounterSeries>();

  const createRequests = (region: string, kind: string): CounterSeries => {
    const byKind = byRegion.get(region) ?? new Map<string, CounterSeries>();
    byRegion.set(region, byKind);
    return keep(byKind, kind, sums.counter('requests', region, route, kind));
  };
  const createResponses = (hundreds: number): CounterSeries =>
    keep(byClass, hundreds, sums.counter('originResponses', route, `${hundreds}xx`));

  return {
    origin: sums.histogram('origin', route),
    requests: (region, kind) => byRegion.get(region)?.get(kind) ?? createRequests(region, kind),
    responses(status) {
      const hundreds = Math.floor(status / 100);
      return byClass.get(hundreds) ?? createResponses(hundreds);
    },
  };
}

function keep<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): Value {
  map.set(key, value);
  return value;
}

export interface ObserverOptions extends Collected {
  readonly now: () => number;
  readonly clockMs: () => number;
}

/** A subject is near its limit when a fifth of it is left. */
const NEAR_PARTS = 5;
const NOBODY: Caller = { ip: 'unknown', address: 'unknown' };

/** In the place of the name of a route, in samples of denials in the log. */
const CHECK_ROUTE = '/_weir/check';

type Result = CheckResult<RuleCheck>;
type Counted = Pick<DecidedRequest, 'caller' | 'route' | 'decision'>;

export function createObserver({ sums, denials, usage, crossings, now, clockMs }: ObserverOptions) {
  let staleSinceMs: number | undefined;
  const decisions = sums.histogram('decision');
  const series = createObservedSeries(sums);

  /** A rule with several limits counts a request once, by the limit that was hardest on it. */
  const addChecked = (results: readonly Result[], i: number): string | undefined => {
    const rule = results[i]?.check.rule;
    if (!rule || isRepeated(results, i)) return undefined;
    const worst = worstOf(results, rule.id);
    series.ofRule(rule, worst).add();
    return worst;
  };

  const addChecks = (results: readonly Result[], { caller = NOBODY, route, decision }: Counted) => {
    for (let i = 0; i < results.length; i += 1) {
      const isDenied = addChecked(results, i) === DENIED;
      const result = results[i];
      const rule = result?.check.rule;
      // An isolate that counts alone does not know what a subject has used.
      const alerts = rule && rule.alertAt.length > 0 && decision.kind === 'counted' && !result.check.isShadow;
      if (!rule || !(isDenied || alerts)) continue;
      const who = subjectOf(rule.scope, caller);
      if (alerts) crossings.add(result, who, result.outcome.nowMs ?? decision.nowMs);
      if (!isDenied) continue;
      const { scope, id: subject } = who;
      denials.add({ nowMs: now(), ruleId: rule.id, ruleName: rule.name, scope, subject, route });
    }
  };

  /** Usage of a request that was admitted; with `realCostOf`, the difference to what was noted for it before. */
  const addUsage = (results: readonly Result[], caller: Caller = NOBODY, realCostOf?: RealCost) => {
    const { tenantId = '', userId = '', apiKeyId = '' } = caller;
    const charges: Charged[] = [];
    for (let i = 0; i < results.length; i += 1) {
      const check = results[i]?.check;
      if (!check || check.isShadow || isRepeated(results, i)) continue;
      charges.push({ ruleId: check.rule.id, cost: check.cost, realCost: realCostOf?.(check) ?? check.cost });
    }
    const costs = costsOf(charges, realCostOf === undefined);
    const requests = realCostOf ? 0 : 1;
    if (costs.length > 0) usage.add({ nowMs: now(), tenantId, userId, apiKeyId, requests, costs });
  };

  const addDecision = ({ decision, incident, startedAtMs }: Omit<CheckedCall, 'subjects'>) => {
    decisions.observe(clockMs() - startedAtMs);
    if (incident) sums.counter('fallback', incident.fallback ?? 'none', incident.reason).add();
    staleSinceMs = decision.isStale ? (staleSinceMs ?? now()) : undefined;
  };

  return {
    decided(request: DecidedRequest): void {
      const { decision, region, caller } = request;
      series.ofRoute(request.route).requests(region, kindOf(decision)).add();
      addDecision(request);
      const results = resultsOf(decision);
      addChecks(results, request);
      if (decision.allowed) addUsage(results, caller);
    },

    checked(call: CheckedCall): void {
      const { decision, region, subjects } = call;
      sums.counter('checkCalls', region, kindOf(decision)).add();
      addDecision(call);
      for (const { caller, results } of subjects) {
        addChecks(results, { caller, route: CHECK_ROUTE, decision });
        if (decision.allowed) addUsage(results, caller);
      }
    },

    corrected({ chargedAtMs, charges, ...who }: CorrectedUsage): void {
      const costs = costsOf(charges, false);
      // In the hour of the charge, which may be long ago.
      if (costs.length > 0) usage.add({ nowMs: chargedAtMs, ...who, requests: 0, costs });
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
      for (const i of results.keys()) addChecked(results, i);
    },

    /** How long this isolate has used rules that it could not confirm. */
    rulesAgeMs: () => (staleSinceMs === undefined ? 0 : Math.max(0, now() - staleSinceMs)),
  };
}

/** What a request has cost in the end. */
type RealCost = (check: RuleCheck) => number;

const REFUNDED: RealCost = ({ rule, cost }) => (rule.refundOnError ? 0 : cost);
const settledAt =
  (real: number): RealCost =>
  ({ rule, cost }) =>
    rule.costFromOrigin ? real : cost;

type Charged = CorrectedUsage['charges'][number];

/**
 * The usage of each rule, and of the caller under '': a request uses as much as the rule for which it cost most, and
 * one unit if no rule counts it. If it was noted before, only what has changed.
 */
function costsOf(charges: readonly Charged[], isFirst: boolean): { ruleId: string; cost: number }[] {
  const costs: { ruleId: string; cost: number }[] = [];
  let [most, realMost] = [0, 0];
  for (const { ruleId, cost, realCost } of charges) {
    most = Math.max(most, cost);
    realMost = Math.max(realMost, realCost);
    if (isFirst || realCost !== cost) costs.push({ ruleId, cost: isFirst ? cost : realCost - cost });
  }
  const total = isFirst ? most || 1 : realMost - most;
  if (isFirst || total !== 0) costs.push({ ruleId: '', cost: total });
  return costs;
}

/** Whether an earlier result is of the same rule: a rule has a result for each of its limits. */
function isRepeated(results: readonly Result[], i: number): boolean {
  const id = results[i]?.check.rule.id;
  for (let k = 0; k < i; k += 1) if (results[k]?.check.rule.id === id) return true;
  return false;
}

const DENIED = 'denied';
/** From the mildest. */
const RESULTS = ['admitted', 'near-limit', 'would-deny', DENIED] as const;

/** The worst result of a rule, among its limits. */
function worstOf(results: readonly Result[], ruleId: string): string {
  let worst = 0;
  for (const result of results)
    if (result.check.rule.id === ruleId) worst = Math.max(worst, RESULTS.indexOf(resultOf(result)));
  return RESULTS[worst] ?? DENIED;
}

function kindOf(decision: Decision): string {
  if (decision.kind !== 'counted') return decision.kind;
  return decision.allowed ? 'admitted' : 'denied';
}

function resultOf({ check, outcome }: Result): (typeof RESULTS)[number] {
  if (!outcome.allowed) return check.isShadow ? 'would-deny' : DENIED;
  return outcome.remaining * NEAR_PARTS <= check.full.limit ? 'near-limit' : 'admitted';
}
