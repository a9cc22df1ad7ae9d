// Finds the series of a request by its rules, its route and its region. It finds a known series without building its
// text.
import type { CompiledRule } from '../core/matching/compiled-rule.ts';
import type { Counter, Histogram, MetricSums } from '../core/telemetry/metric-sums.ts';

interface RouteSeries {
  readonly origin: Histogram;
  /** By region and by the kind of decision. */
  requests(region: string, kind: string): Counter;
  /** By the class of the status. */
  responses(status: number): Counter;
}

export function createObservedSeries(sums: MetricSums) {
  const ofRules = new WeakMap<CompiledRule, Map<string, Counter>>();
  const ofRoutes = new Map<string, RouteSeries>();

  const createRuleCounter = (rule: CompiledRule, result: string): Counter => {
    const known = ofRules.get(rule) ?? new Map<string, Counter>();
    ofRules.set(rule, known);
    return keep(known, result, sums.counter('checks', sums.nameOf('rule', rule.name), result));
  };
  /** The number of routes with a name of their own is bounded, and so is this map. */
  const findRoute = (route: string): RouteSeries => {
    const name = sums.nameOf('route', route);
    return ofRoutes.get(name) ?? keep(ofRoutes, name, createRouteSeries(sums, name));
  };

  return {
    ofRule: (rule: CompiledRule, result: string): Counter =>
      ofRules.get(rule)?.get(result) ?? createRuleCounter(rule, result),
    ofRoute: (route: string): RouteSeries => ofRoutes.get(route) ?? findRoute(route),
  };
}

function createRouteSeries(sums: MetricSums, route: string): RouteSeries {
  const byRegion = new Map<string, Map<string, Counter>>();
  const byClass = new Map<number, Counter>();

  const createRequests = (region: string, kind: string): Counter => {
    const byKind = byRegion.get(region) ?? new Map<string, Counter>();
    byRegion.set(region, byKind);
    return keep(byKind, kind, sums.counter('requests', region, route, kind));
  };
  const createResponses = (hundreds: number): Counter =>
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
