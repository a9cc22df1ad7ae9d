// Compiles a rule as people wrote it into one compiled rule for each of its limits, with all that a counter needs.

import type { AlgorithmId } from '../counting/algorithms/registry.ts';
import { CALENDAR_SECONDS, type CalendarWindow } from '../counting/calendar.ts';
import { counterId, hash } from '../counting/keys.ts';
import { isChosenByClient } from './counted-by.ts';
import { ruleNameOf } from './plan.ts';
import { slotOf } from './resource.ts';
import { isUncounted, LARGEST_LIMIT, type Rule, resourcesOf, type WrittenLimit } from './rule.ts';

/** One limit of a rule, with all fields filled in. */
export interface RuleLimit {
  readonly algorithm: AlgorithmId;
  readonly limit: number | null;
  readonly limitName: string | null;
  /** For a calendar window: its approximate length. */
  readonly windowSeconds: number;
  /** Null: its windows are aligned to the epoch. */
  readonly window: CalendarWindow | null;
  readonly timeZone: string | null;
  readonly anchorDay: number | null;
  readonly burst: number | null;
  readonly buckets: number | null;
}

/** A rule with one limit in its own fields, as most rules have. */
export type LimitedRule = Rule & RuleLimit;

/** A rule in a snapshot, with the ids of its counters. */
export interface PublishedRule extends Rule {
  /** The id of its counter, if it has one limit. */
  readonly counterId: string;
  /** The ids of the counters of its `limits`, in the same order. */
  readonly counterIds?: readonly string[] | undefined;
}

/** One limit of a rule, with all fields of the rule. */
export type CompiledRule = PublishedRule &
  RuleLimit & {
    /** A bound on all values that a client chooses, beside a counter of the same rule. */
    readonly isBound?: true;
    /** The route and method that have this counter for themselves. */
    readonly variant?: string;
    /** For a check without a request: its id is all that is needed to give the charge back. */
    readonly isReturnable?: true;
  };

/** The limits of a rule; none if it allows or multiplies. */
export function limitsOf(rule: Rule): RuleLimit[] {
  if (isUncounted(rule)) return [];
  const said: Said[] = rule.limits.length === 0 ? [rule] : rule.limits.map((one) => completed(one, rule));
  return said.map((one) => withLength(one)).filter(isLimit);
}

const completed = (one: WrittenLimit, rule: Rule) => ({
  limit: one.limit ?? null,
  limitName: one.limitName ?? null,
  burst: one.burst ?? null,
  buckets: one.buckets ?? null,
  windowSeconds: one.windowSeconds ?? null,
  window: one.window ?? null,
  timeZone: one.timeZone ?? null,
  anchorDay: one.anchorDay ?? null,
  algorithm: one.algorithm ?? rule.algorithm,
});

/** A limit that may still lack fields. */
type Said = Pick<Rule, keyof RuleLimit>;

const withLength = (said: Said): Said =>
  said.window === null ? said : { ...said, windowSeconds: CALENDAR_SECONDS[said.window] };

const isLimit = (said: Said): said is Said & RuleLimit =>
  said.algorithm !== null && said.windowSeconds !== null;

/** The most that one request can cost. Regional parts depend on it and not on a request's own cost. */
export const largestCostOf = ({ cost, costs }: Rule): number =>
  costs.reduce((most, one) => Math.max(most, one.cost), cost);

/** Names the counter of each limit. Only this step is asynchronous, so it happens before a snapshot is stored. */
export function withCounterIds<R extends Rule>(rules: readonly R[]): Promise<(R & PublishedRule)[]> {
  return Promise.all(
    rules.map(async (rule) => {
      const ids = await Promise.all(
        limitsOf(rule).map((limit) =>
          counterId(rule.id, limit.algorithm, windowsOf(limit), limit.buckets ?? 0),
        ),
      );
      return rule.limits.length === 0
        ? { ...rule, counterId: ids[0] ?? '' }
        : { ...rule, counterId: '', counterIds: ids };
    }),
  );
}

/** If the length or the calendar changes, counting starts anew. */
const windowsOf = ({ window, timeZone, anchorDay, windowSeconds }: RuleLimit): number | string =>
  window === null ? windowSeconds * 1000 : [window, timeZone ?? 'UTC', anchorDay ?? ''].join(' ');

/** One compiled rule for each limit. A rule with one limit is its own compiled rule, unless it has a calendar. */
export function countersOf(rule: PublishedRule): CompiledRule[] {
  return limitsOf(rule).map((limit, i) =>
    isCompiled(rule, limit) ? rule : { ...rule, ...limit, counterId: rule.counterIds?.[i] ?? rule.counterId },
  );
}

/** `limitsOf` returns the rule itself if the rule has all fields of its one limit. */
const isCompiled = (rule: PublishedRule, limit: RuleLimit): rule is CompiledRule =>
  (limit as object) === (rule as object);

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
