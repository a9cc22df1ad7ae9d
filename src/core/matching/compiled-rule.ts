// Compiles a rule as people wrote it into one compiled rule for each of its limits, with all that a counter needs.
import type { AlgorithmId } from '../counting/algorithms/registry.ts';
import { counterId } from '../counting/keys.ts';
import { CALENDAR_SECONDS, type CalendarWindow } from './calendar.ts';
import { isUncounted, type Rule, type WrittenLimit } from './rule.ts';

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
    /** A bound on all values that a client chooses (variants.ts), beside a counter of the same rule. */
    readonly isBound?: true;
    /** The route and method that have this counter for themselves (variants.ts). */
    readonly variant?: string;
    /** For a check without a request: whoever has its id can give the charge back. */
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
