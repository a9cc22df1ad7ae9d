// From a rule as people wrote it to one compiled rule for each of its limits: what one counter needs.
import type { AlgorithmId } from '../counting/algorithms/registry.ts';
import { counterId } from '../counting/keys.ts';
import type { Rule } from './rule.ts';

/** What one limit of a rule says, with nothing left open. */
export interface RuleLimit {
  readonly algorithm: AlgorithmId;
  readonly limit: number | null;
  readonly limitName: string | null;
  readonly windowSeconds: number;
  readonly burst: number | null;
  readonly buckets: number | null;
}

/** A rule that says one limit by itself: most rules do. */
export type LimitedRule = Rule & RuleLimit;

/** A rule as it is published: with the names of its counters. */
export interface PublishedRule extends Rule {
  /** Of its one limit. */
  readonly counterId: string;
  /** Of each of its `limits`, in their order. */
  readonly counterIds?: readonly string[] | undefined;
}

/** One limit of a rule, with all that the rule says. */
export type CompiledRule = PublishedRule &
  RuleLimit & {
    /** What a client's choice cannot exceed (variants.ts): it stands beside a counter of the same rule. */
    readonly isBound?: true;
  };

/** None if the rule allows. */
export function limitsOf(rule: Rule): RuleLimit[] {
  if (rule.action === 'allow') return [];
  if (rule.limits.length === 0) return isLimit(rule) ? [rule] : [];
  return rule.limits
    .map(({ limit = null, limitName = null, burst = null, buckets = null, ...one }) => ({
      limit,
      limitName,
      burst,
      buckets,
      windowSeconds: one.windowSeconds,
      algorithm: one.algorithm ?? rule.algorithm,
    }))
    .filter(isLimit);
}

const isLimit = <T extends Pick<Rule, 'algorithm' | 'windowSeconds'>>(said: T): said is T & RuleLimit =>
  said.algorithm !== null && said.windowSeconds !== null;

/** The most that one request can cost. Parts of regions are cut by it, so that they are the same for all requests. */
export const largestCostOf = ({ cost, costs }: Rule): number =>
  costs.reduce((most, one) => Math.max(most, one.cost), cost);

/** Names the counter of each limit. The only part that waits, so it is done before a snapshot is stored. */
export function withCounterIds<R extends Rule>(rules: readonly R[]): Promise<(R & PublishedRule)[]> {
  return Promise.all(
    rules.map(async (rule) => {
      const ids = await Promise.all(
        limitsOf(rule).map(({ algorithm, windowSeconds, buckets }) =>
          counterId(rule.id, algorithm, windowSeconds * 1000, buckets ?? 0),
        ),
      );
      return rule.limits.length === 0
        ? { ...rule, counterId: ids[0] ?? '' }
        : { ...rule, counterId: '', counterIds: ids };
    }),
  );
}

/** One for each limit. A rule with one limit is its own compiled rule. */
export function countersOf(rule: PublishedRule): CompiledRule[] {
  return limitsOf(rule).map((limit, i) =>
    isCompiled(rule, limit) ? rule : { ...rule, ...limit, counterId: rule.counterIds?.[i] ?? '' },
  );
}

/** `limitsOf` gives the rule itself if it has one limit. */
const isCompiled = (rule: PublishedRule, limit: RuleLimit): rule is CompiledRule =>
  (limit as object) === (rule as object);
