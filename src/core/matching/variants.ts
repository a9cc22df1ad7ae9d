// The counters of a rule: one for each limit. With `per`, each resource or method has its own. If clients choose a part
// of `by`, each counter has a bound beside it.
import { hash } from '../hash.ts';
import { type CompiledRule, countersOf, type PublishedRule } from './compiled-rule.ts';
import { isChosenByClient } from './counted-by.ts';
import { ruleNameOf } from './policy.ts';
import { slotOf } from './resource.ts';
import { LARGEST_LIMIT, type Rule, resourcesOf } from './rule.ts';

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
    policy: ruleNameOf(rule),
    ...(isOfRoute && { resource, resources: [] }),
    ...(isOfMethod && { methods: [method] }),
  };
}

/** The bound: counted by the rule's scope, for all values that the client chooses together. */
function boundOf(counter: CompiledRule, rule: Rule): CompiledRule {
  const times = (value: number | null) => value && Math.min(LARGEST_LIMIT, value * rule.boundTimes);
  return {
    ...counter,
    counterId: `${counter.counterId}_bound`,
    policy: `${ruleNameOf(rule)}-bound`,
    limit: times(counter.limit),
    burst: times(counter.burst),
    by: [],
    alertAt: [],
    isBound: true,
  };
}

/** All variants of a rule: one for each counter that a caller can have. They list all limits of a caller. */
export function everyVariant(rule: PublishedRule): Variant[] {
  const routes = isPerRoute(rule) ? resourcesOf(rule) : [undefined];
  const methods = isPerMethod(rule) ? everyMethod(rule) : [undefined];
  return routes.flatMap((resource) => methods.map((method) => ({ resource, method })));
}

const everyMethod = ({ methods }: Rule): readonly string[] =>
  methods.length > 0 ? [...new Set(methods.map(countedMethod))] : COUNTED_METHODS;
