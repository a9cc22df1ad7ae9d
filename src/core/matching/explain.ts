// Why a request is limited as it is: of every rule, whether it applies, and if not, why. It asks the rules one by
// one, unlike the snapshot, and comes to the same answer.
import { idInScope, subjectOf } from './caller.ts';
import { limitsOf, type RuleLimit } from './compiled-rule.ts';
import { isAmong, isValidAt } from './conditions.ts';
import { compileCosts } from './costs.ts';
import { compileLists } from './lists.ts';
import { limitPolicyOf } from './policy.ts';
import { byRank, isShadowRule, methodsOf, names } from './rank.ts';
import { reaches } from './replacing.ts';
import { compileResource, parseResource, slotOf } from './resource.ts';
import { type ListEntry, type Rule, resourcesOf, type Scope, type Tier } from './rule.ts';
import type { MatchRequest } from './slots.ts';
import { namesSubject } from './subjects.ts';
import { type CallerTier, compileTiers, limitOfTier } from './tiers.ts';

export interface ExplainContent {
  readonly rules: readonly (Rule & { readonly enabled?: boolean | undefined })[];
  readonly tiers: readonly Tier[];
  readonly lists: readonly ListEntry[];
}

export type ExplainRequest = MatchRequest;

/** Why a rule does not apply; the first of these that is true. */
export const REASONS_AGAINST = [
  'disabled',
  /** Before its `validFrom`, or from its `validUntil` on. */
  'time',
  /** Another path. */
  'resource',
  'method',
  'tier',
  'subject',
  /** The caller is not among the percent that it applies to. */
  'percent',
  /** Another rule of its slot comes before it. */
  'outranked',
  /** A rule for a narrower resource allows the request, or replaces this one. */
  'replaced',
  /** It wins its slot, and has no limit for this caller. */
  'unlimited',
] as const;

/** A limit that the request is held to. */
export interface AppliedLimit extends RuleLimit {
  readonly limit: number;
  /** The name of it that clients read. */
  readonly policy: string;
  readonly limitFrom: 'rule' | 'tier';
}

export type Verdict =
  | {
      readonly reason: 'applies';
      readonly limits: readonly AppliedLimit[];
      readonly cost: number;
      /** Who is counted: the IP, if the caller has no id of the rule's scope. */
      readonly subject: { readonly scope: Scope; readonly id: string };
    }
  /** It wins its slot, counts nothing, and puts broader rules aside. */
  | { readonly reason: 'allows' }
  | { readonly reason: 'outranked' | 'replaced'; readonly winnerId: string }
  | { readonly reason: Exclude<(typeof REASONS_AGAINST)[number], 'outranked' | 'replaced'> };

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
  const winners = bestOfEachSlot(
    content.rules.filter((_, i) => reasons[i] === undefined),
    request.matchPath,
  );
  return {
    listed: compileLists(content.lists)(caller, nowMs),
    tier: tier.name,
    rules: content.rules.map((rule, i) => {
      const reason = reasons[i];
      const verdict: Verdict = reason ? { reason } : verdictOn(rule, winners, request, tier);
      return { ruleId: rule.id, name: rule.name, ...verdict };
    }),
  };
}

/** What keeps a rule from applying, whatever other rules there are. */
function reasonAgainst(
  rule: ExplainContent['rules'][number],
  { matchPath, method, caller, nowMs }: MatchRequest,
  tier: string | undefined,
) {
  if (rule.enabled === false) return 'disabled';
  if (!isValidAt(rule, nowMs)) return 'time';
  if (matchingResources(rule, matchPath).length === 0) return 'resource';
  if (!names(methodsOf(rule), method)) return 'method';
  if (!names(rule.tiers, tier)) return 'tier';
  if (!namesSubject(rule.subjects, idInScope(rule.scope, caller))) return 'subject';
  return isAmong(rule, caller) ? undefined : 'percent';
}

const matchingResources = (rule: Rule, matchPath: string): readonly string[] =>
  resourcesOf(rule).filter((resource) => compileResource(resource)(matchPath));

/** A rule in one of the slots that the path leads to. */
interface Placed {
  readonly rule: Rule;
  readonly resource: string;
}

const slotKey = ({ rule, resource }: Placed) => `${rule.scope} ${isShadowRule(rule)} ${slotOf(resource)}`;

const placesOf = (rule: Rule, matchPath: string): Placed[] =>
  matchingResources(rule, matchPath).map((resource) => ({ rule, resource }));

function bestOfEachSlot(applying: readonly Rule[], matchPath: string): Map<string, Placed> {
  // The best come last, and replace the others.
  return new Map(
    [...applying]
      .sort(byRank)
      .reverse()
      .flatMap((rule) => placesOf(rule, matchPath))
      .map((placed) => [slotKey(placed), placed]),
  );
}

function verdictOn(
  rule: Rule,
  winners: ReadonlyMap<string, Placed>,
  request: MatchRequest,
  tier: CallerTier,
): Verdict {
  const verdicts = placesOf(rule, request.matchPath).map((placed) => verdictAt(placed, winners));
  const lost = verdicts.find((verdict) => verdict !== undefined);
  // One slot that it wins is enough.
  if (lost && !verdicts.includes(undefined)) return lost;
  if (rule.action === 'allow') return { reason: 'allows' };
  const limits = limitsOf(rule).flatMap((limit) => appliedLimit(rule, limit, tier) ?? []);
  if (limits.length === 0) return { reason: 'unlimited' };
  const cost = compileCosts(rule)?.(request) ?? rule.cost;
  return { reason: 'applies', limits, cost, subject: subjectOf(rule.scope, request.caller) };
}

/** Which rule keeps it from applying by this resource; undefined if none does. */
function verdictAt(placed: Placed, winners: ReadonlyMap<string, Placed>): Verdict | undefined {
  const winner = winners.get(slotKey(placed));
  if (winner && winner.rule !== placed.rule) return { reason: 'outranked', winnerId: winner.rule.id };
  const replacing = [...winners.values()].find((other) => isReplacedBy(placed, other));
  return replacing && { reason: 'replaced', winnerId: replacing.rule.id };
}

function isReplacedBy(placed: Placed, other: Placed): boolean {
  const [from, to] = [asSlot(other), asSlot(placed)];
  return (other.rule.replaces || other.rule.action === 'allow') && !!from && !!to && reaches(from, to);
}

function asSlot({ rule, resource }: Placed) {
  const route = parseResource(resource);
  return route.ok ? { scope: rule.scope, route, isShadow: isShadowRule(rule) } : undefined;
}

function appliedLimit(rule: Rule, said: RuleLimit, tier: CallerTier): AppliedLimit | undefined {
  const ofTier = limitOfTier(said, tier.limits);
  const limit = ofTier === undefined ? said.limit : ofTier;
  if (limit === null) return undefined;
  const { algorithm, limitName, windowSeconds, burst, buckets } = said;
  return {
    ...{ algorithm, limitName, windowSeconds, burst, buckets, limit },
    policy: limitPolicyOf(rule, windowSeconds),
    limitFrom: ofTier === undefined ? 'rule' : 'tier',
  };
}
