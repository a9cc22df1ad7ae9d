// Why a request is limited as it is: of every rule, whether it applies, and if not, why. It asks the rules one by
// one, unlike the snapshot, and comes to the same answer.
import { type Caller, idInScope, subjectOf } from './caller.ts';
import { compileLists } from './lists.ts';
import { compileResource, slotOf } from './resource.ts';
import type { ListEntry, Rule, Scope, Tier } from './rule.ts';
import { byRank, isShadowRule, type MatchRequest, methodsOf } from './snapshot.ts';
import { type CallerTier, compileTiers, limitOfTier } from './tiers.ts';

export interface ExplainContent {
  readonly rules: readonly (Rule & { readonly enabled?: boolean | undefined })[];
  readonly tiers: readonly Tier[];
  readonly lists: readonly ListEntry[];
}

export interface ExplainRequest extends MatchRequest {
  /** For the entries of the lists that expire. */
  readonly nowMs: number;
}

/** Why a rule does not apply; the first of these that is true. */
export const REASONS_AGAINST = [
  'disabled',
  /** Another path. */
  'resource',
  'method',
  'tier',
  'subject',
  /** Another rule of its slot comes before it. */
  'outranked',
  /** It wins its slot, and has no limit for this caller. */
  'unlimited',
] as const;

export type Verdict =
  | {
      readonly reason: 'applies';
      readonly limit: number;
      readonly limitFrom: 'rule' | 'tier';
      /** Who is counted: the IP, if the caller has no id of the rule's scope. */
      readonly subject: { readonly scope: Scope; readonly id: string };
    }
  | { readonly reason: 'outranked'; readonly winnerId: string }
  | { readonly reason: Exclude<(typeof REASONS_AGAINST)[number], 'outranked'> };

export type RuleExplanation = { readonly ruleId: string; readonly name: string } & Verdict;

export interface Explanation {
  /** The list that the caller is on. Rules do not matter then. */
  readonly listed: ListEntry['list'] | undefined;
  /** The caller's tier, or the default one. */
  readonly tier: string | undefined;
  /** In the order in which the rules were given. */
  readonly rules: readonly RuleExplanation[];
}

export function explain(content: ExplainContent, request: ExplainRequest): Explanation {
  const { caller, nowMs } = request;
  const tier = compileTiers(content.tiers)(caller);
  const reasons = content.rules.map((rule) => reasonAgainst(rule, request, tier.name));
  const winners = bestOfEachSlot(content.rules.filter((_, i) => reasons[i] === undefined));
  return {
    listed: compileLists(content.lists)(caller, nowMs),
    tier: tier.name,
    rules: content.rules.map((rule, i) => {
      const reason = reasons[i];
      const verdict: Verdict = reason
        ? { reason }
        : verdictInSlot(rule, winners.get(slotKey(rule)), tier, caller);
      return { ruleId: rule.id, name: rule.name, ...verdict };
    }),
  };
}

/** What keeps a rule from applying, whatever other rules there are. */
function reasonAgainst(
  rule: ExplainContent['rules'][number],
  { matchPath, method, caller }: MatchRequest,
  tier: string | undefined,
) {
  if (rule.enabled === false) return 'disabled';
  if (!compileResource(rule.resource)(matchPath)) return 'resource';
  if (!allows(methodsOf(rule), method)) return 'method';
  if (!allows(rule.tiers, tier)) return 'tier';
  return allows(rule.subjects, idInScope(rule.scope, caller)) ? undefined : 'subject';
}

const allows = (list: readonly string[], name: string | undefined) =>
  list.length === 0 || (name !== undefined && list.includes(name));

const slotKey = (rule: Rule) => `${rule.scope} ${isShadowRule(rule)} ${slotOf(rule.resource)}`;

function bestOfEachSlot(applying: readonly Rule[]): Map<string, Rule> {
  // The best come last, and replace the others.
  return new Map(
    [...applying]
      .sort(byRank)
      .reverse()
      .map((rule) => [slotKey(rule), rule]),
  );
}

function verdictInSlot(rule: Rule, winner: Rule | undefined, tier: CallerTier, caller: Caller): Verdict {
  if (winner && winner !== rule) return { reason: 'outranked', winnerId: winner.id };
  const ofTier = limitOfTier(rule, tier.limits);
  const limit = ofTier === undefined ? rule.limit : ofTier;
  if (limit === null) return { reason: 'unlimited' };
  const limitFrom = ofTier === undefined ? 'rule' : 'tier';
  return { reason: 'applies', limit, limitFrom, subject: subjectOf(rule.scope, caller) };
}
