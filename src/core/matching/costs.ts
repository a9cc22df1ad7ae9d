// What a request costs under one rule: its most specific entry of `costs`, else its flat cost.
import { pathsOf } from './file-extensions.ts';
import { methodsOf, names } from './rank.ts';
import { PARAMETER, parseResource, type Route } from './resource.ts';
import { createRouteTrie } from './route-trie.ts';
import type { Rule } from './rule.ts';
import type { MatchRequest } from './slots.ts';

export type CostOf = (request: Pick<MatchRequest, 'matchPath' | 'otherPath' | 'method'>) => number;

interface Entry {
  /** Its place among all costs of the rule, the most specific first. */
  readonly place: number;
  readonly methods: readonly string[];
  readonly cost: number;
}

/** Undefined: every request costs the same. */
export function compileCosts({ cost, costs }: Rule): CostOf | undefined {
  if (costs.length === 0) return undefined;
  const routes = createRouteTrie<Entry[]>();
  for (const [place, { route, ...one }] of mostSpecificFirst(costs).entries())
    routes.at(route, () => []).push({ ...one, place });
  return ({ method, ...paths }) => {
    let best: Entry | undefined;
    for (const path of pathsOf(paths))
      for (const entries of routes.find(path))
        for (const entry of entries)
          if ((best === undefined || entry.place < best.place) && names(entry.methods, method)) best = entry;
    return best?.cost ?? cost;
  };
}

const mostSpecificFirst = (costs: Rule['costs']) =>
  costs
    .flatMap(({ resource, methods, cost }) => {
      const route = parseResource(resource);
      return route.ok ? [{ route, methods: methodsOf({ methods }), cost }] : [];
    })
    .sort(
      (a, b) =>
        bySpecificity(a.route, b.route) || Number(b.methods.length > 0) - Number(a.methods.length > 0),
    );

/**
 * Compares two resources that match one path, segment by segment. A name comes first, then the beginning of a name (the
 * longest first), then a parameter, then the star of a prefix.
 */
function bySpecificity(a: Route, b: Route): number {
  const [one, other] = [outlineOf(a), outlineOf(b)];
  return one < other ? -1 : Number(one > other);
}

const outlineOf = ({ segments, isPrefix, stem }: Route): string =>
  segments.map((segment) => (segment === PARAMETER ? '2' : '0')).join('') +
  (stem === undefined ? '' : `1${String.fromCharCode(LONGEST_STEM - stem.length)}`) +
  (isPrefix ? '3' : '');

/** Longer than any resource is. */
const LONGEST_STEM = 0x4000;
