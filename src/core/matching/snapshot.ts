// All rules, tiers and lists, compiled for matching, under one version. Immutable: a change is a new snapshot.

import { counterId } from '../counting/keys.ts';
import { type Caller, idInScope } from './caller.ts';
import { compileLists } from './lists.ts';
import { NameTable } from './name-table.ts';
import { isOwnPath, type ParsedResource, parseResource } from './resource.ts';
import { createRouteTrie, type RouteTrie } from './route-trie.ts';
import {
  type ListEntry,
  type Rule,
  SCOPES,
  type Scope,
  type Split,
  type Tier,
  type TierLimits,
} from './rule.ts';
import { compileTiers, limitOfTier } from './tiers.ts';

/** A rule with what can be worked out before any request comes. */
export interface CompiledRule extends Rule {
  readonly counterId: string;
}

/** What a snapshot is made from, and how it is stored. */
export interface SnapshotContent {
  readonly rules: readonly CompiledRule[];
  readonly tiers: readonly Tier[];
  readonly lists: readonly ListEntry[];
  /** Undefined until the first publication that knows of regions. */
  readonly split?: Split | undefined;
}

export interface MatchRequest {
  /** Canonical, for matching. */
  readonly matchPath: string;
  readonly method: string;
  readonly caller: Caller;
}

/** A rule that applies, and the limit it has for this caller. */
export interface Match {
  readonly rule: CompiledRule;
  readonly limit: number;
}

export interface Snapshot {
  readonly version: string;
  readonly ruleCount: number;
  readonly split?: Split | undefined;
  /** The rules that apply: the best one of each (scope, resource) slot, broad resources first, then by scope. */
  match(request: MatchRequest): readonly Match[];
  /** Of these, rules that apply to every request from that address, with the same limit. */
  matchAnybody(request: MatchRequest): readonly Match[];
  /**
   * What limits the caller anywhere: of each slot the rules that win it for some method, whatever the path, in the
   * order of their slots' best rules. Without those that only log; bounded, as there may be thousands.
   */
  limitsOf(caller: Caller): readonly Match[];
  /** Whether the caller is on a list; the deny list comes first. */
  listed(caller: Caller, nowMs: number): ListEntry['list'] | undefined;
}

/** Of what one caller is told. */
export const MOST_LIMITS = 200;

/** Names the counter of each rule. The only part that waits, so it is done before a snapshot is stored. */
export function withCounterIds(rules: readonly Rule[]): Promise<CompiledRule[]> {
  return Promise.all(
    rules.map(async (rule) => {
      const windowMs = rule.windowSeconds * 1000;
      return { ...rule, counterId: await counterId(rule.id, rule.algorithm, windowMs, rule.buckets ?? 0) };
    }),
  );
}

export function compileSnapshot(version: string, content: SnapshotContent): Snapshot {
  const { routes, enforced } = compileRoutes(content.rules);
  const tierOf = compileTiers(content.tiers);
  // Those pass whatever rules say.
  const isAllowedByName = content.lists.some(({ list, kind }) => list === 'allow' && kind !== 'ip');
  return {
    version,
    ruleCount: content.rules.length,
    split: content.split,
    listed: compileLists(content.lists),
    match(request) {
      const tier = tierOf(request.caller);
      return matchIn(routes, request, (slot) => matchOf(bestOf(slot, request, tier.name), tier.limits));
    },
    matchAnybody(request) {
      if (isAllowedByName) return [];
      return matchIn(routes, request, (slot) =>
        isForAnybody(slot) ? bestOf(slot, request, undefined)?.match : undefined,
      );
    },
    limitsOf(caller) {
      const tier = tierOf(caller);
      const limits: Match[] = [];
      for (const slot of enforced)
        for (const winner of winnersOf(slot, caller, tier.name)) {
          const match = matchOf(winner, tier.limits);
          if (match && limits.push(match) === MOST_LIMITS) return limits;
        }
      return limits;
    },
  };
}

function matchIn(
  routes: RouteTrie<Slot[]>,
  { matchPath }: MatchRequest,
  winnerOf: (slot: Slot) => Match | undefined,
): Match[] {
  const matches: Match[] = [];
  if (isOwnPath(matchPath)) return matches;
  for (const slots of routes.find(matchPath))
    for (const slot of slots) {
      const match = winnerOf(slot);
      if (match) matches.push(match);
    }
  return matches;
}

/** Which of two rules of a slot wins: priority, then the one that says more about the caller, then the id. */
export function byRank(a: Rule, b: Rule): number {
  return a.priority - b.priority || specificity(b) - specificity(a) || (a.id < b.id ? -1 : 1);
}

/** Naming subjects says more than naming tiers, and that more than naming methods. */
export const specificity = ({ subjects, tiers, methods }: Rule): number =>
  (subjects.length > 0 ? 4 : 0) + (tiers.length > 0 ? 2 : 0) + (methods.length > 0 ? 1 : 0);

/** The methods a rule applies to, `HEAD` spelled out; none: all. */
export const methodsOf = ({ methods }: Rule): readonly string[] =>
  methods.includes('GET') && !methods.includes('HEAD') ? [...methods, 'HEAD'] : methods;

/** A rule of a slot, with what is asked of it for every request worked out. */
interface Candidate {
  readonly rule: CompiledRule;
  /** Its place among all rules. */
  readonly rank: number;
  readonly methods: readonly string[];
  /** With the rule's own limit. */
  readonly match: Match | undefined;
}

/**
 * The rules of one scope and resource, best first, by the narrowest thing that they ask of a caller. Shadow rules are
 * among themselves: one that only watches never takes the place of one that denies.
 */
interface Slot {
  readonly scope: Scope;
  readonly isShadow: boolean;
  /** Whether the tier of a caller makes a difference. */
  isTiered: boolean;
  readonly everybody: Candidate[];
  byTier?: NameTable<Candidate[]>;
  bySubject?: NameTable<Candidate[]>;
}

interface CompiledRoutes {
  readonly routes: RouteTrie<Slot[]>;
  /** All slots but the shadow ones, in the order of their best rules. */
  readonly enforced: readonly Slot[];
}

function compileRoutes(rules: readonly CompiledRule[]): CompiledRoutes {
  const routes = createRouteTrie<Slot[]>();
  const enforced: Slot[] = [];
  const parsed = new Map<string, ParsedResource>();
  for (const [rank, rule] of [...rules].sort(byRank).entries()) {
    const route = parsed.get(rule.resource) ?? parseResource(rule.resource);
    parsed.set(rule.resource, route);
    if (!route.ok) continue;
    const slot = slotFor(rule, routes.at(route, createSlots));
    if (isEmpty(slot) && !slot.isShadow) enforced.push(slot);
    addToSlot(slot, rule, rank);
  }
  return { routes, enforced };
}

const isEmpty = ({ everybody, byTier, bySubject }: Slot) => everybody.length === 0 && !byTier && !bySubject;

const createSlots = (): Slot[] => [];

function slotFor(rule: Rule, slots: Slot[]): Slot {
  const { scope } = rule;
  const isShadow = isShadowRule(rule);
  const known = slots.find((slot) => slot.scope === scope && slot.isShadow === isShadow);
  if (known) return known;
  const slot: Slot = { scope, isShadow, isTiered: false, everybody: [] };
  slots.push(slot);
  slots.sort((a, b) => placeOf(a) - placeOf(b));
  return slot;
}

export const isShadowRule = ({ action }: Rule) => action === 'log';

const placeOf = ({ scope, isShadow }: Slot) => SCOPES.indexOf(scope) * 2 + Number(isShadow);

/** An address is the same for every caller. */
const isForAnybody = ({ scope, isShadow, isTiered }: Slot) =>
  (scope === 'ip' || scope === 'global') && !isShadow && !isTiered;

function addToSlot(slot: Slot, rule: CompiledRule, rank: number): void {
  slot.isTiered ||= rule.tiers.length > 0 || rule.limitName !== null;
  const match = rule.limit === null ? undefined : { rule, limit: rule.limit };
  const candidate: Candidate = { rule, rank, methods: methodsOf(rule), match };
  if (rule.subjects.length > 0) slot.bySubject = addByName(slot.bySubject, rule.subjects, candidate);
  else if (rule.tiers.length > 0) slot.byTier = addByName(slot.byTier, rule.tiers, candidate);
  else addUnlessCovered(slot.everybody, candidate);
}

function addByName(
  lists = new NameTable<Candidate[]>(),
  names: readonly string[],
  candidate: Candidate,
): NameTable<Candidate[]> {
  for (const name of names) addUnlessCovered(lists.getOrSet(name, createList), candidate);
  return lists;
}

const createList = (): Candidate[] => [];

/** A rule that a better one always takes the place of is not even looked at: lists stay short. */
function addUnlessCovered(list: Candidate[], candidate: Candidate): void {
  const isCovered = list.some(
    (better) => covers(better.methods, candidate.methods) && covers(better.rule.tiers, candidate.rule.tiers),
  );
  if (!isCovered) list.push(candidate);
}

const covers = (wide: readonly string[], narrow: readonly string[]) =>
  wide.length === 0 || (narrow.length > 0 && narrow.every((name) => wide.includes(name)));

function bestOf(
  slot: Slot,
  { method, caller }: MatchRequest,
  tier: string | undefined,
): Candidate | undefined {
  let best = firstOf(slot.everybody, method, tier);
  if (slot.byTier && tier !== undefined) best = better(best, firstOf(slot.byTier.get(tier), method, tier));
  if (slot.bySubject) {
    // Its own id: an override does not name a caller that is counted by IP because it has no id.
    const id = idInScope(slot.scope, caller);
    if (id !== undefined) best = better(best, firstOf(slot.bySubject.get(id), method, tier));
  }
  return best;
}

function firstOf(
  list: readonly Candidate[] | undefined,
  method: string,
  tier: string | undefined,
): Candidate | undefined {
  return list?.find(({ methods, rule }) => names(methods, method) && names(rule.tiers, tier));
}

/** Of the rules of a slot that are for this caller, those that are the best one for some method. */
function winnersOf(slot: Slot, caller: Caller, tier: string | undefined): Candidate[] {
  const id = slot.bySubject && idInScope(slot.scope, caller);
  const ofTier = tier === undefined ? undefined : slot.byTier?.get(tier);
  const ofSubject = id === undefined ? undefined : slot.bySubject?.get(id);
  const candidates: Candidate[] = [];
  for (const list of [slot.everybody, ofTier, ofSubject])
    for (const candidate of list ?? []) if (names(candidate.rule.tiers, tier)) candidates.push(candidate);
  // Mostly so, and there may be thousands of slots.
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
const EVERY_METHOD = '*';

const names = (list: readonly string[], name: string | undefined) =>
  list.length === 0 || (name !== undefined && list.includes(name));

const better = (a: Candidate | undefined, b: Candidate | undefined) =>
  a === undefined || (b !== undefined && b.rank < a.rank) ? b : a;

/** A caller is unlimited by the rule that won: the next rule of the slot does not step in. */
function matchOf(winner: Candidate | undefined, limits: TierLimits | undefined): Match | undefined {
  if (!winner) return undefined;
  const limit = limitOfTier(winner.rule, limits);
  if (limit === undefined) return winner.match;
  return limit === null ? undefined : { rule: winner.rule, limit };
}
