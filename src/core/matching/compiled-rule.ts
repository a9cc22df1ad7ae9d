// Compiles a rule into one compiled rule for each of its limits, with all that a counter needs.

import { counterId, hash } from '../counting/keys.ts';
import { isChosenByClient } from './counted-by.ts';
import { slotOf } from './resource.ts';
import { EVERY_SCOPE, LARGEST_LIMIT, type Rule, type RuleLimit, type Scope } from './rule.ts';

/** A limit in a snapshot, with the id of its counter. */
export type PublishedLimit = RuleLimit & { readonly counterId: string };

export type PublishedRule = Omit<Rule, 'limits'> & { readonly limits: readonly PublishedLimit[] };

/** One limit of a rule, with all fields of the rule. */
export interface CompiledRule extends PublishedLimit, Omit<PublishedRule, 'policy' | 'scope'> {
  readonly scope: Scope;
  /** The name of the limit that clients read. */
  readonly policy: string;
  /** A bound on all values that a client chooses, beside a counter of the same rule. */
  readonly isBound?: true;
  /** The route and method that have this counter for themselves. */
  readonly variant?: string;
  /** For a check without a request: its id is all that is needed to give the charge back. */
  readonly isReturnable?: true;
}

/** The most that one request can cost. Regional parts depend on it and not on a request's own cost. */
export const largestCostOf = ({ cost, costs }: Rule): number =>
  costs.reduce((most, one) => Math.max(most, one.cost), cost);

/** Names the counter of each limit. Only this step is asynchronous, so it happens before a snapshot is stored. */
export const withCounterIds = <R extends Rule>(rules: readonly R[]): Promise<(R & PublishedRule)[]> =>
  Promise.all(
    rules.map(async (rule) => ({ ...rule, limits: await Promise.all(rule.limits.map(withId(rule))) })),
  );

const withId =
  ({ id }: Rule) =>
  async (limit: RuleLimit): Promise<PublishedLimit> => ({
    ...limit,
    counterId: await counterId(id, limit.algorithm, windowsOf(limit), limit.buckets ?? 0),
  });

/** If the length or the calendar changes, counting starts anew. */
const windowsOf = ({ window, timeZone, anchorDay, windowSeconds }: RuleLimit): number | string =>
  window === null ? windowSeconds * 1000 : [window, timeZone ?? 'UTC', anchorDay ?? ''].join(' ');

// The counters of a rule: one for each limit. With `per`, each resource or method has its own. If clients choose a part
// of `by`, each counter has a bound beside it.

/** All other methods share one counter, so that a client that makes up methods gets no fresh one. */
export const COUNTED_METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
export const OTHER_METHOD = 'OTHER';

/** `HEAD` counts as `GET`. */
export function countedMethod(method: string): string {
  if (method === 'HEAD') return 'GET';
  return (COUNTED_METHODS as readonly string[]).includes(method) ? method : OTHER_METHOD;
}

export interface Variant {
  /** The resource of the rule that the request has matched. */
  readonly resource?: string | undefined;
  readonly method?: string | undefined;
}

export const isPerRoute = (rule: Rule): boolean => rule.per.includes('route') && rule.resources.length > 1;
export const isPerMethod = (rule: Rule): boolean => rule.per.includes('method');
export const hasBound = ({ by }: Pick<Rule, 'by'>): boolean => by.some(isChosenByClient);

/** The counters of a rule without variants and bounds: one for each limit. */
export function countersOf(rule: PublishedRule): CompiledRule[] {
  const { scope } = rule;
  if (scope === EVERY_SCOPE) return [];
  return rule.limits.map((limit) => ({ ...rule, ...limit, scope, policy: policyOf(rule, limit) }));
}

export function countersFor(rule: PublishedRule, variant: Variant): readonly CompiledRule[] {
  const counters = countersOf(rule).map((counter) => asVariant(counter, rule, variant));
  return hasBound(rule) ? counters.flatMap((counter) => [counter, boundOf(counter, rule)]) : counters;
}

function asVariant(counter: CompiledRule, rule: Rule, { resource, method }: Variant): CompiledRule {
  const isOfRoute = isPerRoute(rule) && resource !== undefined;
  const isOfMethod = isPerMethod(rule) && method !== undefined;
  if (!isOfRoute && !isOfMethod) return counter;
  const route = isOfRoute ? `_${hash(slotOf(resource)).toString(36)}` : '';
  const variant = isOfMethod ? `${route}_${method}` : route;
  return {
    ...counter,
    counterId: `${counter.counterId}${variant}`,
    variant,
    ...(isOfRoute && { resources: [resource] }),
    ...(isOfMethod && { methods: [method] }),
  };
}

/** The bound: counted by the rule's scope, for all values that the client chooses together. */
function boundOf(counter: CompiledRule, rule: Rule): CompiledRule {
  const times = (value: number | null) => value && Math.min(LARGEST_LIMIT, value * rule.boundTimes);
  return {
    ...counter,
    counterId: `${counter.counterId}_bound`,
    policy: policyOf(rule, counter, '-bound'),
    limit: times(counter.limit),
    burst: times(counter.burst),
    by: [],
    alertAt: [],
    isBound: true,
  };
}

/** All variants of a rule: one for each counter that a caller can have. They list all limits of a caller. */
export function everyVariant(rule: PublishedRule): Variant[] {
  const routes = isPerRoute(rule) ? rule.resources : [undefined];
  const methods = isPerMethod(rule) ? everyMethod(rule) : [undefined];
  return routes.flatMap((resource) => methods.map((method) => ({ resource, method })));
}

const everyMethod = ({ methods }: Rule): readonly string[] =>
  methods.length > 0 ? [...new Set(methods.map(countedMethod))] : COUNTED_METHODS;

// The name of a limit that clients read. A rule's own name is for operators and may be confidential.

/** Names that need no escaping in a header. */
export const POLICY = /^[a-z0-9][a-z0-9._-]{0,62}$/;
const MAX_CHARACTERS = 48;

/** One name for each limit. If a rule has several limits, each name ends with its window. */
export const policyOf = (rule: Rule, { window, windowSeconds }: RuleLimit, kind = ''): string =>
  ruleNameOf(rule) + kind + (rule.limits.length === 1 ? '' : `-${window ?? inUnits(windowSeconds)}`);

/** The policy of the rule. If the rule has none, `/users/:id` of scope `ip` becomes `users-id-ip`. */
export const ruleNameOf = ({
  policy,
  resources: [first = ''],
  scope,
}: Pick<Rule, 'policy' | 'resources' | 'scope'>): string =>
  policy ?? `${slugOf(first)}-${scope === 'apiKey' ? 'key' : scope}`;

function slugOf(resource: string): string {
  const words = resource.toLowerCase().replace(/\/\*$/, '/all').replace(/\*$/, '-all');
  const slug = words.replace(/[^a-z0-9._]+/g, '-').replace(/^[^a-z0-9]+|-$/g, '');
  return slug.slice(0, MAX_CHARACTERS) || 'root';
}

const UNITS = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
] as const;

/** 3,600 seconds are `1h`, and 90 are `90s`. */
function inUnits(seconds: number): string {
  const unit = UNITS.find(([, size]) => seconds % size === 0);
  return unit ? `${seconds / unit[1]}${unit[0]}` : `${seconds}s`;
}
