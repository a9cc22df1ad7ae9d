// Explains for every rule whether it applies to a request, and if not, why. Unlike the snapshot, this code checks the
// rules one by one. Both give the same answer.
import { type Caller, claimIn, idInScope, subjectOf } from '../core/matching/caller.ts';
import { hasBound, policyOf } from '../core/matching/compiled-rule.ts';
import {
  compileCosts,
  isAmong,
  isForHost,
  isForRoute,
  isValidAt,
  namesId,
} from '../core/matching/conditions.ts';
import { parametersOf, subjectBy } from '../core/matching/counted-by.ts';
import { compileLists } from '../core/matching/lists.ts';
import type { OriginRoute } from '../core/matching/origin-routes.ts';
import { compileOriginRoutes } from '../core/matching/origin-routes.ts';
import { type Paths, pathsOf, withoutExtensions } from '../core/matching/path.ts';
import { isOwnPath, PARAMETER, parseResource, segmentsOf, slotOf } from '../core/matching/resource.ts';
import {
  type CallerTier,
  claimedLimit,
  compileTiers,
  type ListEntry,
  limitOfCaller,
  limitOfTier,
  type Rule,
  type RuleLimit,
  type Scope,
  type TenantLimits,
  type Tier,
} from '../core/matching/rule.ts';
import {
  byRank,
  isMultiplying,
  isShadowRule,
  type MatchRequest,
  methodsOf,
  multiplied,
  multiplies,
  names,
  putsAside,
  slotBy,
} from '../core/matching/slots.ts';
import type { Settings } from '../core/matching/snapshot.ts';

export interface ExplainContent {
  readonly rules: readonly (Rule & { readonly enabled?: boolean | undefined })[];
  readonly tiers: readonly Tier[];
  readonly tenantLimits?: TenantLimits | undefined;
  readonly lists: readonly ListEntry[];
  readonly routes?: readonly OriginRoute[] | undefined;
  readonly settings?: Settings | undefined;
}

export type ExplainRequest = MatchRequest;

/** Why a rule does not apply; the first of these that is true. */
export const REASONS_AGAINST = [
  'disabled',
  /** Before its `validFrom`, or from its `validUntil` on. */
  'time',
  /** Another path. */
  'resource',
  /** Another host. */
  'host',
  /** Another route. */
  'route',
  'method',
  'tier',
  /** The caller has another tenant, or none. */
  'tenant',
  'subject',
  /** The caller is not among the percent of subjects that the rule applies to. */
  'percent',
  /** Another rule of its slot comes before it. */
  'outranked',
  /** A rule for a narrower resource allows the request, or replaces this one. */
  'replaced',
  /** The rule wins its slot, but has no limit for this caller. */
  'unlimited',
] as const;

/** Where a limit can come from; the first that has one. */
export const LIMIT_SOURCES = ['claim', 'tenant', 'tier', 'rule'] as const;

/**
 * `taken`: it is the limit. `capped`: it is larger than `limitMax`, which is the limit. `missing`: the caller has no such
 * claim. `unusable`: it is no whole number of at least 1.
 */
export const CLAIM_USES = ['taken', 'capped', 'missing', 'unusable'] as const;

export interface ReadClaim {
  readonly name: string;
  readonly value: string | undefined;
  readonly use: (typeof CLAIM_USES)[number];
}

/** A limit that applies to the request. */
export interface AppliedLimit extends RuleLimit {
  readonly limit: number;
  /** The name that clients read. */
  readonly policy: string;
  readonly limitFrom: (typeof LIMIT_SOURCES)[number];
  /** The claim that the rule asks for, and what became of it. */
  readonly claim: ReadClaim | undefined;
  /** The factor of a rule that multiplies this limit. */
  readonly times: number | undefined;
}

export type RuleVerdict =
  | {
      readonly reason: 'applies';
      readonly limits: readonly AppliedLimit[];
      readonly cost: number;
      /** Who is counted: the caller's id in the rule's scope, else its IP; or all parts, if the rule has `by`. */
      readonly subject: { readonly scope: Scope | 'by'; readonly id: string };
      /** All values that the client chooses may together use this many times the limit. */
      readonly boundTimes: number | undefined;
    }
  /** It wins its slot, counts nothing, and puts broader rules aside. */
  | { readonly reason: 'allows' }
  /** It wins its slot, counts nothing, and changes the limits of others. */
  | { readonly reason: 'multiplies'; readonly times: number }
  | { readonly reason: 'outranked' | 'replaced'; readonly winnerId: string }
  | { readonly reason: Exclude<(typeof REASONS_AGAINST)[number], 'outranked' | 'replaced'> };

export type RuleExplanation = { readonly ruleId: string; readonly name: string } & RuleVerdict;

export interface Explanation {
  /** The list that the caller is on. Rules do not matter then. */
  readonly listed: ListEntry['list'] | undefined;
  /** The caller's tier, or the default one. */
  readonly tier: string | undefined;
  /** In the order of `ExplainContent.rules`. */
  readonly rules: readonly RuleExplanation[];
}

export function explain(content: ExplainContent, asked: ExplainRequest): Explanation {
  const { caller, nowMs, facts, matchPath } = asked;
  const routes = compileOriginRoutes(content.routes);
  const otherPaths = content.settings?.fileExtensions === 'ignored' ? withoutExtensions(matchPath) : [];
  const request = {
    ...asked,
    otherPaths,
    routeName: () => routes?.find(facts?.host() ?? '', matchPath)?.name,
  };
  const tier = compileTiers(content.tiers, content.tenantLimits)(caller);
  const reasons = content.rules.map((rule) => reasonAgainst(rule, request, tier.name));
  const winners = bestOfEachSlot(
    content.rules.filter((_, i) => reasons[i] === undefined),
    request,
  );
  return {
    listed: compileLists(content.lists)(caller, nowMs),
    tier: tier.name,
    rules: content.rules.map((rule, i) => {
      const reason = reasons[i];
      const verdict: RuleVerdict = reason ? { reason } : verdictOn(rule, winners, request, tier);
      return { ruleId: rule.id, name: rule.name, ...verdict };
    }),
  };
}

/** Why a rule does not apply, without regard to other rules. */
function reasonAgainst(
  rule: ExplainContent['rules'][number],
  request: MatchRequest,
  tier: string | undefined,
) {
  const { method, caller, nowMs } = request;
  if (rule.enabled === false) return 'disabled';
  if (!isValidAt(rule, nowMs)) return 'time';
  if (matchingResources(rule, request).length === 0) return 'resource';
  if (!isForHost(rule, request)) return 'host';
  if (!isForRoute(rule, request)) return 'route';
  if (!names(methodsOf(rule), method)) return 'method';
  if (!names(rule.tiers, tier)) return 'tier';
  if (!namesId(rule.tenants, caller.tenantId)) return 'tenant';
  if (!namesId(rule.subjects, idInScope(rule.scope, caller))) return 'subject';
  return isAmong(rule, caller) ? undefined : 'percent';
}

const matchingResources = (rule: Rule, paths: Paths): readonly string[] =>
  rule.resources.filter((resource) => pathsOf(paths).some(compileResource(resource)));

/** The resource as a test of canonical match paths. */
export function compileResource(resource: string): (matchPath: string) => boolean {
  const parsed = parseResource(resource);
  if (!parsed.ok) return () => false;
  const { segments, isPrefix, stem } = parsed;
  return (matchPath) => {
    if (isOwnPath(matchPath)) return false;
    const asked = segmentsOf(matchPath);
    const isOpen = isPrefix || stem !== undefined;
    if (isOpen ? asked.length < segments.length : asked.length !== segments.length) return false;
    if (stem !== undefined && !asked[segments.length]?.startsWith(stem)) return false;
    return segments.every((segment, i) => segment === PARAMETER || segment === asked[i]);
  };
}

/** A rule in one of the slots that the path leads to. */
interface Placed {
  readonly rule: Rule;
  readonly resource: string;
}

const slotKey = ({ rule, resource }: Placed) =>
  `${rule.scope} ${isShadowRule(rule)} ${slotBy(rule)} ${slotOf(resource)}`;

const placesOf = (rule: Rule, paths: Paths): Placed[] =>
  matchingResources(rule, paths).map((resource) => ({ rule, resource }));

function bestOfEachSlot(applying: readonly Rule[], paths: Paths): Map<string, Placed> {
  // The best rules come last, so they replace the others in the map.
  return new Map(
    [...applying]
      .sort(byRank)
      .reverse()
      .flatMap((rule) => placesOf(rule, paths))
      .map((placed) => [slotKey(placed), placed]),
  );
}

function verdictOn(
  rule: Rule,
  winners: ReadonlyMap<string, Placed>,
  request: MatchRequest,
  tier: CallerTier,
): RuleVerdict {
  const verdicts = placesOf(rule, request).map((placed) => verdictAt(placed, winners));
  const lost = verdicts.find((verdict) => verdict !== undefined);
  // A rule applies if it wins at least one slot.
  if (lost && !verdicts.includes(undefined)) return lost;
  if (rule.action === 'allow') return { reason: 'allows' };
  if (isMultiplying(rule)) return { reason: 'multiplies', times: rule.times ?? 1 };
  const times = timesOf(rule, winners, request.caller);
  const limits = rule.limits.flatMap(
    (limit) => appliedLimit(rule, limit, { caller: request.caller, tier, times }) ?? [],
  );
  if (limits.length === 0) return { reason: 'unlimited' };
  const cost = compileCosts(rule)?.(request) ?? rule.cost;
  const boundTimes = hasBound(rule) ? rule.boundTimes : undefined;
  return { reason: 'applies', limits, cost, subject: countedOf(rule, request), boundTimes };
}

function countedOf(rule: Rule, request: MatchRequest): { scope: Scope | 'by'; id: string } {
  if (rule.by.length === 0) return subjectOf(rule.scope, request.caller);
  const [resource = ''] = matchingResources(rule, request);
  return { scope: 'by', id: subjectBy(rule.by, request, parametersOf(resource)) };
}

/** The rule that keeps this one from applying by this resource; undefined if there is none. */
function verdictAt(placed: Placed, winners: ReadonlyMap<string, Placed>): RuleVerdict | undefined {
  const winner = winners.get(slotKey(placed));
  if (winner && winner.rule !== placed.rule) return { reason: 'outranked', winnerId: winner.rule.id };
  if (isMultiplying(placed.rule)) return undefined;
  const replacing = [...winners.values()].find((other) => isReplacedBy(placed, other));
  return replacing && { reason: 'replaced', winnerId: replacing.rule.id };
}

function isReplacedBy(placed: Placed, other: Placed): boolean {
  const [from, to] = [inSlot(other), inSlot(placed)];
  return (other.rule.replaces || other.rule.action === 'allow') && !!from && !!to && putsAside(from, to);
}

function inSlot({ rule, resource }: Placed) {
  const route = parseResource(resource);
  return route.ok ? { rule, slot: { scope: rule.scope, route, isShadow: isShadowRule(rule) } } : undefined;
}

/** The factor for the limits of a rule. If several winners multiply, only the best one counts. */
function timesOf(
  rule: Rule,
  winners: ReadonlyMap<string, Placed>,
  caller: MatchRequest['caller'],
): number | undefined {
  const [best] = [...winners.values()]
    .filter((other) => isMultiplying(other.rule) && multiplies(other.rule, rule, caller))
    .sort((a, b) => byRank(a.rule, b.rule));
  return best?.rule.times ?? undefined;
}

interface ForCaller {
  readonly caller: Caller;
  readonly tier: CallerTier;
  readonly times: number | undefined;
}

function appliedLimit(
  rule: Rule,
  said: RuleLimit,
  { caller, tier, times }: ForCaller,
): AppliedLimit | undefined {
  const own = limitOfCaller(said, caller, tier);
  const written = own === undefined ? said.limit : own;
  if (written === null) return undefined;
  const limit = times === undefined ? written : multiplied(written, times, said);
  return {
    ...said,
    limit,
    policy: policyOf(rule, said),
    limitFrom: sourceOf(said, caller, tier),
    claim: readClaim(said, caller),
    times,
  };
}

function sourceOf(said: RuleLimit, { claims }: Caller, tier: CallerTier): AppliedLimit['limitFrom'] {
  if (claimedLimit(said, claims) !== undefined) return 'claim';
  if (limitOfTier(said, tier.ofTenant) !== undefined) return 'tenant';
  return limitOfTier(said, tier.limits) === undefined ? 'rule' : 'tier';
}

function readClaim(said: RuleLimit, { claims }: Caller): ReadClaim | undefined {
  const { limitClaim: name, limitMax } = said;
  if (name === null) return undefined;
  const value = claimIn(claims, name);
  if (value === undefined) return { name, value, use: 'missing' };
  if (claimedLimit(said, claims) === undefined) return { name, value, use: 'unusable' };
  return { name, value, use: limitMax !== null && Number(value) > limitMax ? 'capped' : 'taken' };
}
