// A slot holds the rules of one scope and resource. This file decides which of them wins for a request.

import { largestLimit } from '../counting/check.ts';
import { type Caller, idInScope } from './caller.ts';
import {
  type CompiledRule,
  countedMethod,
  countersFor,
  everyVariant,
  hasBound,
  isPerMethod,
  type PublishedRule,
  type Variant,
} from './compiled-rule.ts';
import {
  type Asker,
  type Condition,
  type CostOf,
  compileCosts,
  conditionOf,
  getOrSet,
  isPattern,
  PrefixTable,
  prefixOf,
} from './conditions.ts';
import { parametersOf, type RequestFacts } from './counted-by.ts';
import { contains, parseResource, type Route } from './resource.ts';
import { EVERY_SCOPE, RULE_SCOPES, type Rule, type RuleLimit, type RuleScope } from './rule.ts';

// Which of two rules of a slot comes first.

/**
 * Which of two rules of a slot wins: the lower priority number, then the more specific rule, then the lower id. A rule
 * for every scope comes after one for a single scope.
 */
export const byRank = (a: Rule, b: Rule): number =>
  byPriority(a, b) ||
  Number(a.scope === EVERY_SCOPE) - Number(b.scope === EVERY_SCOPE) ||
  (a.id < b.id ? -1 : 1);

const byPriority = (a: Rule, b: Rule): number => a.priority - b.priority || specificity(b) - specificity(a);

/** From most to least specific: subjects by name or by pattern, tenants likewise, tiers, methods, hosts or routes. */
export const specificity = ({ subjects, tenants, tiers, methods, hosts, routes }: Rule): number =>
  byNames(subjects) * 32 +
  byNames(tenants) * 8 +
  (tiers.length > 0 ? 4 : 0) +
  (methods.length > 0 ? 2 : 0) +
  (hosts.length > 0 || routes.length > 0 ? 1 : 0);

const byNames = (named: readonly string[]): number =>
  named.length === 0 ? 0 : named.some(isPattern) ? 1 : 2;

/** The methods of the rule, with `HEAD` spelled out; empty means all. */
export const methodsOf = ({
  methods = [],
}: {
  readonly methods?: readonly string[] | undefined;
}): readonly string[] =>
  methods.includes('GET') && !methods.includes('HEAD') ? [...methods, 'HEAD'] : methods;

export const isShadowRule = ({ action }: Rule) => action === 'log';

/** An empty list names everything. */
export const names = (list: readonly string[], name: string | undefined): boolean =>
  list.length === 0 || (name !== undefined && list.includes(name));

// Rules that multiply: one rule changes all limits of a customer. It has a slot of its own. It applies to rules of its
// scope whose resources all lie within its own, so that a counter has the same limit on every path.

export const isMultiplying = ({ action }: Pick<Rule, 'action'>): boolean => action === 'multiply';

/** Stands in place of the parts that a rule counts by. No part has this name. */
export const MULTIPLYING = 'multiply';

/** A rule that multiplies limits of this caller. */
interface Multiplying {
  readonly rule: Rule;
  readonly rank: number;
}

/** The factor for the limits of a rule. If several rules multiply, only the best one counts. */
export function timesFor(
  rule: Rule,
  multiplying: readonly Multiplying[],
  caller: Caller,
): number | undefined {
  let best: Multiplying | undefined;
  for (const one of multiplying)
    if ((best === undefined || one.rank < best.rank) && multiplies(one.rule, rule, caller)) best = one;
  return best?.rule.times ?? undefined;
}

export const multiplies = (from: Rule, to: Rule, caller: Caller): boolean =>
  (from.scope === to.scope || from.scope === EVERY_SCOPE) &&
  ((from.scope !== EVERY_SCOPE && from.tenants.length === 0) || countsByOwnId(to, caller)) &&
  routesOf(to).every((narrow) => routesOf(from).some((wide) => contains(wide, narrow)));

/**
 * Whether every counter of the rule belongs to the caller, its user or its tenant. Others may share an address, and
 * their requests must find the same limit.
 */
function countsByOwnId(rule: Rule, caller: Caller): boolean {
  const isOwn = (part: string) =>
    OWN.some((scope) => scope === part && idInScope(scope, caller) !== undefined);
  // Its bound is counted by the scope.
  if (rule.by.length > 0 && !hasBound(rule)) return rule.by.some(isOwn);
  return isOwn(rule.scope) && (rule.by.length === 0 || rule.by.some(isOwn));
}

const OWN = ['tenant', 'user', 'apiKey'] as const;

const known = new WeakMap<Rule, readonly Route[]>();

function routesOf(rule: Rule): readonly Route[] {
  const found = known.get(rule) ?? rule.resources.map(parseResource).filter((route) => route.ok);
  known.set(rule, found);
  return found;
}

/** At least 1, and no more than the algorithm can count. */
export function multiplied(
  units: number,
  times: number,
  { algorithm, windowSeconds }: Pick<CompiledRule, 'algorithm' | 'windowSeconds'>,
): number {
  return Math.max(1, Math.min(largestLimit(algorithm, windowSeconds * 1_000), Math.floor(units * times)));
}

export interface MatchRequest {
  /** Canonical, for matching. */
  readonly matchPath: string;
  /** The path without its file extensions, if rules for that path apply as well (path.ts). */
  readonly otherPaths?: readonly string[] | undefined;
  readonly method: string;
  readonly caller: Caller;
  /** For rules with a start or an end. */
  readonly nowMs: number;
  /** For rules that look at other facts. Undefined: nothing is known. */
  readonly facts?: RequestFacts | undefined;
  readonly routeName?: (() => string | undefined) | undefined;
}

/** A limit that applies, with its value for this caller and the cost of the request. */
export interface Match {
  readonly rule: CompiledRule;
  readonly limit: number;
  readonly cost: number;
  /** The factor, if another rule multiplies the limit. */
  readonly times?: number | undefined;
  /** The positions of the parameters that the rule counts by. */
  readonly parameters?: ReadonlyMap<string, number> | undefined;
}

/** A rule of a slot, prepared for matching. */
export interface Candidate {
  readonly rule: PublishedRule;
  readonly slot: Slot;
  /** The rank of the rule among all rules. */
  readonly rank: number;
  readonly methods: readonly string[];
  /** Made when a request first meets the rule, because an isolate meets few of thousands of rules. */
  counted: Counted | undefined;
  /** The resource that puts the rule into the slot. */
  readonly resource: string;
  /** The counters of each method, if each method has its own. */
  readonly ofMethods: Map<string, Counted> | undefined;
  readonly parameters: ReadonlyMap<string, number> | undefined;
  /** Undefined: every request costs the same. */
  readonly costOf: CostOf | undefined;
  readonly isReplacing: boolean;
  /** Undefined: the rule has no condition. */
  readonly condition: Condition | undefined;
}

interface Counted {
  /** One for each limit; none if the rule allows or multiplies. */
  readonly counters: readonly CompiledRule[];
  /** The matches with the rule's own limits and its flat cost. */
  readonly matches: readonly Match[];
}

/**
 * The rules of one scope and resource, best first, grouped by their narrowest condition on the caller: subject, tenant
 * or tier. Shadow rules have slots of their own, so that a shadow rule never displaces one that denies.
 */
export interface Slot {
  readonly scope: RuleScope;
  /** What its rules count by instead of the scope; '': by the scope; MULTIPLYING: they count nothing. */
  readonly by: string;
  readonly route: Route;
  readonly isShadow: boolean;
  /** Whether the tier, the tenant or a claim of a caller makes a difference. */
  asksWho: boolean;
  /** Whether some rule of the slot puts broader rules aside. */
  isReplacing: boolean;
  /** Whether denied requests change a counter of some rule of the slot. */
  mustSeeDenied: boolean;
  readonly everybody: Candidate[];
  byTier?: Map<string, Candidate[]>;
  byTenant?: Named;
  bySubject?: Named;
}

/** Rules by the names and patterns that they name. */
interface Named {
  byName?: Map<string, Candidate[]>;
  byPattern?: PrefixTable<Candidate[]>;
}

/** The order of the parts does not matter. Rules that multiply have slots of their own. */
export const slotBy = (rule: Pick<Rule, 'by' | 'action'>): string =>
  isMultiplying(rule) ? MULTIPLYING : [...rule.by].sort().join(' ');

export const createSlot = (rule: Rule, route: Route): Slot => ({
  scope: rule.scope,
  by: slotBy(rule),
  route,
  isShadow: isShadowRule(rule),
  asksWho: false,
  isReplacing: false,
  mustSeeDenied: false,
  everybody: [],
});

export const isEmpty = ({ everybody, byTier, byTenant, bySubject }: Slot): boolean =>
  everybody.length === 0 && !byTier && !byTenant && !bySubject;

/** Orders slots by scope; within a scope, shadow slots come last. */
export const placeOf = ({ scope, isShadow }: Pick<Slot, 'scope' | 'isShadow'>): number =>
  RULE_SCOPES.indexOf(scope) * 2 + Number(isShadow);

/** Rules must be added by rank, the best one first. */
export function addToSlot(slot: Slot, rule: PublishedRule, rank: number, resource: string): void {
  const candidate = toCandidate(slot, rule, { rank, resource });
  slot.asksWho ||= rule.tiers.length > 0 || rule.tenants.length > 0 || rule.limits.some(asksCaller);
  slot.isReplacing ||= candidate.isReplacing;
  slot.mustSeeDenied ||= rule.countDenied || rule.blockSeconds !== null;
  if (rule.subjects.length > 0) slot.bySubject = addNamed(slot.bySubject, rule.subjects, candidate);
  else if (rule.tenants.length > 0) slot.byTenant = addNamed(slot.byTenant, rule.tenants, candidate);
  else if (rule.tiers.length > 0) slot.byTier = addByName(slot.byTier, rule.tiers, candidate);
  else addUnlessCovered(slot.everybody, candidate);
}

/** Whether callers may have limits of their own. */
const asksCaller = ({ limitName, limitClaim }: RuleLimit) => limitName !== null || limitClaim !== null;

function toCandidate(
  slot: Slot,
  rule: PublishedRule,
  { rank, resource }: Pick<Candidate, 'rank' | 'resource'>,
): Candidate {
  const parameters = rule.by.some((part) => part.startsWith('param:')) ? parametersOf(resource) : undefined;
  return {
    rule,
    slot,
    rank,
    resource,
    methods: methodsOf(rule),
    counted: undefined,
    ofMethods: isPerMethod(rule) ? new Map() : undefined,
    parameters,
    costOf: compileCosts(rule),
    isReplacing: rule.replaces || rule.action === 'allow',
    condition: conditionOf(rule),
  };
}

function countedAs(rule: PublishedRule, variant: Variant, parameters: Candidate['parameters']): Counted {
  const counters = countersFor(rule, variant);
  return {
    counters,
    matches: counters.flatMap((counter) =>
      counter.limit === null
        ? []
        : [{ rule: counter, limit: counter.limit, cost: rule.cost, times: undefined, parameters }],
    ),
  };
}

/** The counters for a request with this method. */
export function countedOf(candidate: Candidate, method: string): Counted {
  const { ofMethods, rule, resource, parameters } = candidate;
  if (ofMethods === undefined) return countedOfAny(candidate);
  const counted = countedMethod(method);
  const known = ofMethods.get(counted) ?? countedAs(rule, { resource, method: counted }, parameters);
  ofMethods.set(counted, known);
  return known;
}

/** The counters for a request with any method. */
export function countedOfAny(candidate: Candidate): Counted {
  const { rule, resource, parameters } = candidate;
  candidate.counted ??= countedAs(rule, { resource }, parameters);
  return candidate.counted;
}

/** All counters that the rule can use for a caller, whatever the request. */
export const countersOfAll = (candidate: Candidate): readonly CompiledRule[] =>
  candidate.ofMethods === undefined && candidate.rule.per.length === 0
    ? countedOfAny(candidate).counters
    : everyVariant(candidate.rule).flatMap((variant) => countersFor(candidate.rule, variant));

function addNamed(named: Named = {}, list: readonly string[], candidate: Candidate): Named {
  const names = list.filter((one) => !isPattern(one));
  if (names.length > 0) named.byName = addByName(named.byName, names, candidate);
  for (const pattern of list.filter(isPattern)) {
    named.byPattern ??= new PrefixTable();
    addUnlessCovered(named.byPattern.getOrSet(prefixOf(pattern), createList), candidate);
  }
  return named;
}

function addByName(
  lists = new Map<string, Candidate[]>(),
  named: readonly string[],
  candidate: Candidate,
): Map<string, Candidate[]> {
  for (const name of named) addUnlessCovered(getOrSet(lists, name, createList), candidate);
  return lists;
}

const createList = (): Candidate[] => [];

/** Leaves out a rule that a better one always beats, so that lists stay short. */
function addUnlessCovered(list: Candidate[], candidate: Candidate): void {
  const isCovered = list.some(
    (better) =>
      !better.condition &&
      covers(better.methods, candidate.methods) &&
      covers(better.rule.tiers, candidate.rule.tiers),
  );
  if (!isCovered) list.push(candidate);
}

const covers = (wide: readonly string[], narrow: readonly string[]) =>
  wide.length === 0 || (narrow.length > 0 && narrow.every((name) => wide.includes(name)));

/** The facts of a request that a slot looks at. */
export type SlotRequest = Pick<MatchRequest, 'method' | 'caller' | 'nowMs' | 'facts' | 'routeName'>;

export function bestOf(slot: Slot, asked: SlotRequest, tier: string | undefined): Candidate | undefined {
  let best = firstOf(slot.everybody, asked, tier);
  if (slot.byTier && tier !== undefined) best = better(best, firstOf(slot.byTier.get(tier), asked, tier));
  for (const list of listsFor(slot, asked.caller)) best = better(best, firstOf(list, asked, tier));
  return best;
}

const NONE: readonly Candidate[][] = [];

/** The rules that name the caller or its tenant. */
function listsFor({ scope, byTenant, bySubject }: Slot, caller: Caller): readonly Candidate[][] {
  if (!byTenant && !bySubject) return NONE;
  const ofTenant = listsOf(byTenant, caller.tenantId);
  // Uses the caller's own id: an override does not apply to a caller that is counted by IP for lack of an id.
  return bySubject ? [...ofTenant, ...listsOf(bySubject, idInScope(scope, caller))] : ofTenant;
}

function listsOf(named: Named | undefined, id: string | undefined): readonly Candidate[][] {
  if (!named || id === undefined) return NONE;
  const byName = named.byName?.get(id);
  const byPattern = named.byPattern?.find(id) ?? NONE;
  return byName ? [byName, ...byPattern] : byPattern;
}

function firstOf(
  list: readonly Candidate[] | undefined,
  asked: SlotRequest,
  tier: string | undefined,
): Candidate | undefined {
  if (list === undefined) return undefined;
  for (const candidate of list) if (isFor(candidate, asked, tier)) return candidate;
  return undefined;
}

/** Whether the rule applies to this request, given that it applies to the caller. */
const isFor = (candidate: Candidate, asked: SlotRequest, tier: string | undefined): boolean =>
  names(candidate.methods, asked.method) &&
  names(candidate.rule.tiers, tier) &&
  (candidate.condition === undefined || candidate.condition(asked));

const better = (a: Candidate | undefined, b: Candidate | undefined) =>
  a === undefined || (b !== undefined && b.rank < a.rank) ? b : a;

/** The rules of a slot that win for this caller with some method. */
export function winnersOf(slot: Slot, asker: Asker, tier: string | undefined): Candidate[] {
  const ofTier = tier === undefined ? undefined : slot.byTier?.get(tier);
  const candidates: Candidate[] = [];
  for (const list of [slot.everybody, ofTier, ...listsFor(slot, asker.caller)])
    for (const candidate of list ?? [])
      if (names(candidate.rule.tiers, tier) && (candidate.condition?.(asker) ?? true))
        candidates.push(candidate);
  // The usual case, and there may be thousands of slots.
  if (candidates.length <= 1) return candidates;
  const taken = new Set<string>();
  return candidates
    .sort((a, b) => a.rank - b.rank)
    .filter(({ methods }) => {
      if (taken.has(EVERY_METHOD)) return false;
      if (methods.length > 0 && methods.every((method) => taken.has(method))) return false;
      for (const method of methods.length > 0 ? methods : [EVERY_METHOD]) taken.add(method);
      return true;
    });
}

/** No method is spelled like this. */
export const EVERY_METHOD = '*';

// Rules that put others aside: a rule that `replaces`, and one that allows. Where such a rule wins its slot, rules of
// the same scope whose resource contains its own do not apply. One that allows can be for every scope. Then it has a
// slot of its own, so it also puts rules for its very resource aside, unless they come first.

/** The winners that no other winner puts aside. Mostly that is all of them. */
export function withoutReplaced(winners: readonly Candidate[]): readonly Candidate[] {
  if (!winners.some(({ isReplacing }) => isReplacing)) return winners;
  return winners.filter((winner) => !winners.some((other) => other.isReplacing && putsAside(other, winner)));
}

interface Placed {
  readonly rule: Rule;
  readonly slot: Pick<Slot, 'scope' | 'route' | 'isShadow'>;
}

/** Whether a winner that replaces or allows puts the other one aside. */
export const putsAside = (from: Placed, to: Placed): boolean =>
  reaches(from.slot, to.slot) &&
  (!isSameRoute(from.slot.route, to.slot.route) || byPriority(from.rule, to.rule) <= 0);

/** Whether rules of the first slot can put those of the second aside. A shadow rule changes nothing. */
export const reaches = (from: Placed['slot'], to: Placed['slot']): boolean =>
  (from.scope === to.scope ? !isSameRoute(from.route, to.route) : from.scope === EVERY_SCOPE) &&
  (to.isShadow || !from.isShadow) &&
  contains(to.route, from.route);

const isSameRoute = (a: Slot['route'], b: Slot['route']): boolean => contains(a, b) && contains(b, a);
