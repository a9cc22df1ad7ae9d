// The conditions of a rule beyond method and tier: its period of validity, the percent of subjects that it applies to,
// its hosts and routes, and its tenants if it names subjects, too.

import { hash } from '../counting/keys.ts';
import { type Caller, subjectOf } from './caller.ts';
import type { RequestFacts } from './counted-by.ts';
import { pathsOf } from './path.ts';
import { createRouteTrie, PARAMETER, parseResource, type Route } from './resource.ts';
import type { Rule } from './rule.ts';
import { type MatchRequest, methodsOf, names } from './slots.ts';

export interface Asker {
  readonly caller: Caller;
  readonly nowMs: number;
  readonly facts?: RequestFacts | undefined;
  /** The name of the route that the request takes. */
  readonly routeName?: (() => string | undefined) | undefined;
}

export type Condition = (asker: Asker) => boolean;

/** Undefined if the rule applies to everybody at any time. */
export function conditionOf(rule: Rule): Condition | undefined {
  const isTimed = rule.validFromMs !== null || rule.validUntilMs !== null;
  const isPlaced = rule.hosts.length > 0 || rule.routes.length > 0;
  // Without subjects, a slot finds the rule by its tenants.
  const isOfTenants = rule.tenants.length > 0 && rule.subjects.length > 0;
  if (!isTimed && !isPlaced && !isOfTenants && rule.percent === 100) return undefined;
  return (asker) =>
    isValidAt(rule, asker.nowMs) &&
    isAmong(rule, asker.caller) &&
    (!isOfTenants || namesId(rule.tenants, asker.caller.tenantId)) &&
    (!isPlaced || (isForHost(rule, asker) && isForRoute(rule, asker)));
}

export const isForHost = ({ hosts }: Rule, { facts }: Asker): boolean =>
  hosts.length === 0 || hosts.some((host) => covers(host, facts?.host() ?? ''));

const covers = (host: string, asked: string): boolean =>
  host.startsWith('*.') ? asked.endsWith(host.slice(1)) : asked === host;

export function isForRoute({ routes }: Rule, { routeName }: Asker): boolean {
  if (routes.length === 0) return true;
  const name = routeName?.();
  return name !== undefined && routes.includes(name);
}

/** Whether the rule is in force at that moment. */
export const isValidAt = ({ validFromMs, validUntilMs }: Rule, nowMs: number): boolean =>
  (validFromMs === null || validFromMs <= nowMs) && (validUntilMs === null || nowMs < validUntilMs);

/** Chooses subjects by a hash. A higher percent adds subjects and removes none. Each rule chooses its own subjects. */
export function isAmong({ id, scope, percent }: Rule, caller: Caller): boolean {
  if (percent >= 100) return true;
  const subject = subjectOf(scope, caller);
  return hash(`${id} ${subject.scope}:${subject.id}`) * 100 < percent * 2 ** 32;
}

// What a request costs under one rule: its most specific entry of `costs`, else its flat cost.

export type CostOf = (request: Pick<MatchRequest, 'matchPath' | 'otherPaths' | 'method'>) => number;

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

// The subjects and tenants of an override: names, and patterns such as `acme-*`, which match all names with that
// beginning.

const STAR = '*';

export const isPattern = (subject: string): boolean => subject.endsWith(STAR);
export const prefixOf = (pattern: string): string => pattern.slice(0, -STAR.length);

/** An empty list names everybody. */
export const namesId = (named: readonly string[], id: string | undefined): boolean =>
  named.length === 0 ||
  (id !== undefined && named.some((one) => (isPattern(one) ? id.startsWith(prefixOf(one)) : id === one)));

/** The value under this name; created on first use. */
export function getOrSet<T>(table: Map<string, T>, name: string, create: () => T): T {
  const known = table.get(name) ?? create();
  table.set(name, known);
  return known;
}

/** Values by the beginning of a name. The cost of a look-up grows only with the number of different lengths. */
export class PrefixTable<T> {
  readonly #table = new Map<string, T>();
  #lengths: readonly number[] = [];

  getOrSet(prefix: string, create: () => T): T {
    if (!this.#lengths.includes(prefix.length))
      this.#lengths = [...this.#lengths, prefix.length].sort((a, b) => a - b);
    return getOrSet(this.#table, prefix, create);
  }

  /** The values of all prefixes that the name begins with, the shortest first. */
  find(text: string): T[] {
    const found: T[] = [];
    for (const length of this.#lengths) {
      const value = length <= text.length ? this.#table.get(text.slice(0, length)) : undefined;
      if (value !== undefined) found.push(value);
    }
    return found;
  }
}
