// The series that requests are counted in, each found by what the request has at hand: its rules, its route, its
// region.
import type { CompiledRule } from '../core/matching/compiled-rule.ts';
import type { Counter, Histogram, MetricSums } from '../core/telemetry/metric-sums.ts';

interface RouteSeries {
  readonly origin: Histogram;
  /** By region and by what was decided. */
  requests(region: string, kind: string): Counter;
  /** By the class of the status. */
  responses(status: number): Counter;
}

export function createObservedSeries(sums: MetricSums) {
  const ofRules = new WeakMap<CompiledRule, Map<string, Counter>>();
  const ofRoutes = new Map<string, RouteSeries>();

  return {
    ofRule(rule: CompiledRule, result: string): Counter {
      const known = ofRules.get(rule) ?? new Map<string, Counter>();
      ofRules.set(rule, known);
      return kept(known, result, () => sums.counter('checks', sums.nameOf('rule', rule.name), result));
    },
    /** Only so many have a name of their own, so only so many are kept. */
    ofRoute(route: string): RouteSeries {
      const name = sums.nameOf('route', route);
      return kept(ofRoutes, name, () => createRouteSeries(sums, name));
    },
  };
}

function createRouteSeries(sums: MetricSums, route: string): RouteSeries {
  const byRegion = new Map<string, Map<string, Counter>>();
  const byClass = new Map<number, Counter>();
  return {
    origin: sums.histogram('origin', route),
    requests: (region, kind) =>
      kept(
        kept(byRegion, region, () => new Map<string, Counter>()),
        kind,
        () => sums.counter('requests', region, route, kind),
      ),
    responses: (status) => {
      const hundreds = Math.floor(status / 100);
      return kept(byClass, hundreds, () => sums.counter('originResponses', route, `${hundreds}xx`));
    },
  };
}

/** What the map has, or what is made and kept there. */
function kept<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = create();
  map.set(key, made);
  return made;
}
