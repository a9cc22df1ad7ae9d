// All rules, tiers and lists of one version, compiled for matching. A snapshot never changes: a change makes a new one.

import { type Calendars, compileCalendars, type PublishedCalendars } from '../counting/calendar.ts';
import type { Caller } from './caller.ts';
import {
  type CompiledRule,
  countersOf,
  hasBound,
  isPerRoute,
  type PublishedRule,
  ruleNameOf,
} from './compiled-rule.ts';
import { compileLists } from './lists.ts';
import { compileOriginRoutes, type OriginRoute, type OriginRoutes } from './origin-routes.ts';
import { withoutExtensions } from './path.ts';
import {
  createRouteTrie,
  isOwnPath,
  type ParsedResource,
  parseResource,
  type RouteTrie,
} from './resource.ts';
import {
  type CallerTier,
  compileTiers,
  EVERY_SCOPE,
  type ListEntry,
  limitOfCaller,
  type Split,
  type TenantLimits,
  type Tier,
} from './rule.ts';
import {
  addToSlot,
  bestOf,
  byRank,
  type Candidate,
  countedOf,
  countedOfAny,
  countersOfAll,
  createSlot,
  EVERY_METHOD,
  isEmpty,
  isMultiplying,
  isShadowRule,
  type Match,
  type MatchRequest,
  MULTIPLYING,
  multiplied,
  placeOf,
  reaches,
  type Slot,
  slotBy,
  timesFor,
  winnersOf,
  withoutReplaced,
} from './slots.ts';

// Rules by name, for checks without a request.

/** How a check names its rule: by id or name, or by the policy that clients read. */
export interface RuleName {
  readonly rule?: string | undefined;
  readonly policy?: string | undefined;
}

/** A rule that is switched off. A check that names it is allowed, and counts nothing. */
export interface RuleOff {
  readonly id: string;
  readonly name: string;
  readonly policy: string;
}

export interface NamedRule {
  readonly rule: PublishedRule;
  /** One for each of its limits; none if it allows. */
  readonly counters: readonly CompiledRule[];
}

/** All rules of that name. Several rules may share a policy. */
export type RulesNamed = (name: RuleName) => readonly NamedRule[];

/** Builds the table on first use, because most isolates never need it. */
export function compileNames(rules: readonly PublishedRule[]): RulesNamed {
  let tables: { readonly byRule: Table; readonly byPolicy: Table } | undefined;
  return ({ rule, policy }) => {
    tables ??= {
      byRule: tableOf(rules, ({ id, name }) => [id, name]),
      byPolicy: tableOf(rules, (one) => [ruleNameOf(one)]),
    };
    const found = rule === undefined ? tables.byPolicy.get(policy ?? '') : tables.byRule.get(rule);
    return found ?? [];
  };
}

type Table = Map<string, NamedRule[]>;

function tableOf(rules: readonly PublishedRule[], namesOf: (rule: PublishedRule) => string[]): Table {
  const table: Table = new Map();
  for (const rule of rules) {
    const named = toNamed(rule);
    for (const name of new Set(namesOf(rule))) table.set(name, [...(table.get(name) ?? []), named]);
  }
  return table;
}

/** Compiles the counters of a rule on first use, and once, because the limiter keeps what it knows by rule object. */
function toNamed(rule: PublishedRule): NamedRule {
  let counters: readonly CompiledRule[] | undefined;
  return {
    rule,
    get counters() {
      counters ??= countersOf(rule);
      return counters;
    },
  };
}

export { type CompiledRule, type PublishedRule, withCounterIds } from './compiled-rule.ts';
export type { Match, MatchRequest } from './slots.ts';

/** What a snapshot is made from, and how it is stored. */
export interface SnapshotContent {
  readonly rules: readonly PublishedRule[];
  readonly tiers: readonly Tier[];
  /** Undefined if no tenant has limits that rules take. */
  readonly tenantLimits?: TenantLimits | undefined;
  readonly lists: readonly ListEntry[];
  /** Undefined until the first publication that knows of regions. */
  readonly split?: Split | undefined;
  /** Undefined if there are none. */
  readonly routes?: readonly OriginRoute[] | undefined;
  /** Undefined: all settings have their defaults. */
  readonly settings?: Settings | undefined;
  /** Undefined if no rule has a calendar. */
  readonly calendars?: PublishedCalendars | undefined;
  /** Undefined if there are none. */
  readonly off?: readonly RuleOff[] | undefined;
}

export interface Snapshot {
  readonly version: string;
  readonly ruleCount: number;
  /** Every rule only records what it would have done. */
  readonly isLogOnly: boolean;
  readonly split?: Split | undefined;
  /** Undefined if no rule has one. */
  readonly calendars?: Calendars | undefined;
  /** Where requests go; undefined if all go to the one origin. */
  readonly routes?: OriginRoutes | undefined;
  /**
   * The limits that apply: those of the best rule of each (scope, resource) slot, without the rules that others put
   * aside; broad resources first, then by scope.
   */
  match(request: MatchRequest): readonly Match[];
  /** The limits among these that apply equally to every request from that address. */
  matchByIpOnly(request: MatchRequest): readonly Match[];
  /**
   * All limits of the caller on any path: the rules that win their slot for some method, in the order of the slots'
   * best rules. Without shadow rules. Bounded, because there may be thousands.
   */
  limitsOf(caller: Caller, nowMs: number): readonly Match[];
  /** Whether the caller is on a list; the deny list comes first. */
  listed(caller: Caller, nowMs: number): ListEntry['list'] | undefined;
  /** Finds rules by name, for checks without a request. */
  readonly rulesNamed: RulesNamed;
  /** Whether this names a rule that is switched off. */
  isOff(name: RuleName): boolean;
  /** The limit of one counter for that caller; null is unlimited. */
  limitOf(counter: CompiledRule, caller: Caller, nowMs: number): Pick<Match, 'limit' | 'times'> | null;
  /** The name of the caller's tier, the default one included. */
  tierOf(caller: Caller): string | undefined;
}

/** The most limits that Weir shows to one caller. */
export const MAX_LIMITS = 200;

export function compileSnapshot(version: string, content: SnapshotContent): Snapshot {
  const { routes, enforced, multiplyingSlots } = compileRoutes(content.rules);
  const tierOf = compileTiers(content.tiers, content.tenantLimits);
  const origins = compileOriginRoutes(content.routes);
  const hasRoutes = content.rules.some((rule) => rule.routes.length > 0);
  const nameOfRoute = ({ facts, matchPath }: MatchRequest) =>
    origins?.find(facts?.host() ?? '', matchPath)?.name;
  const ignoresExtensions = content.settings?.fileExtensions === 'ignored';
  /** Adds the facts that the rules of this snapshot need. */
  const completed = (asked: MatchRequest): MatchRequest => {
    const otherPaths = ignoresExtensions ? withoutExtensions(asked.matchPath) : undefined;
    if (!hasRoutes && !otherPaths?.length) return asked;
    return { ...asked, otherPaths, routeName: () => nameOfRoute(asked) };
  };
  const hasMultiplying = multiplyingSlots.length > 0;
  const multiplyingFor = (caller: Caller, nowMs: number): Candidate[] => {
    const tier = tierOf(caller).name;
    return multiplyingSlots.flatMap(
      (slot) => bestOf(slot, { caller, nowMs, method: EVERY_METHOD }, tier) ?? [],
    );
  };
  // Callers on the allow list pass whatever the rules say.
  const isAllowedByName = content.lists.some(({ list, kind }) => list === 'allow' && kind !== 'ip');
  return {
    version,
    ruleCount: content.rules.length,
    isLogOnly: content.settings?.enforcement === 'log',
    split: content.split,
    calendars: compileCalendars(content.calendars),
    routes: origins,
    tierOf: (caller) => tierOf(caller).name,
    listed: compileLists(content.lists),
    rulesNamed: compileNames(content.rules),
    isOff: ({ rule, policy }) =>
      content.off?.some((one) =>
        rule === undefined ? one.policy === policy : [one.id, one.name].includes(rule),
      ) === true,
    limitOf(counter, caller, nowMs) {
      const limit = limitIn(counter, caller, tierOf(caller));
      if (limit === null) return null;
      const times = hasMultiplying ? timesFor(counter, multiplyingFor(caller, nowMs), caller) : undefined;
      return times === undefined ? { limit } : { limit: multiplied(limit, times, counter), times };
    },
    match(asked) {
      const request = completed(asked);
      const tier = tierOf(request.caller);
      const winners = winnersIn(routes, request, tier.name);
      if (!hasMultiplying) return matchesOf(withoutReplaced(winners), saidOf(request, tier));
      const multiplying = winners.filter(({ rule }) => isMultiplying(rule));
      const others = winners.filter(({ rule }) => !isMultiplying(rule));
      return matchesOf(withoutReplaced(others), saidOf(request, tier, multiplying));
    },
    matchByIpOnly(asked) {
      const request = completed(asked);
      return isAllowedByName ? [] : matchesOf(winnersForAnybody(routes, request), saidOf(request, undefined));
    },
    limitsOf(caller, nowMs) {
      const tier = tierOf(caller);
      const limits: Match[] = [];
      const told = new Set<PublishedRule>();
      const multiplying = multiplyingFor(caller, nowMs);
      for (const slot of enforced)
        for (const winner of winnersOf(slot, { caller, nowMs }, tier.name)) {
          if (told.has(winner.rule) || hasBound(winner.rule)) continue;
          if (winner.rule.resources.length > 1) told.add(winner.rule);
          addMatches(limits, winner, { caller, tier, multiplying });
          if (limits.length >= MAX_LIMITS) return limits.slice(0, MAX_LIMITS);
        }
      return limits;
    },
  };
}

/** The winner of each slot of the path, from the broadest resource to the narrowest. */
function winnersIn(routes: RouteTrie<Slot[]>, request: MatchRequest, tier: string | undefined): Candidate[] {
  const winners: Candidate[] = [];
  if (isOwnPath(request.matchPath)) return winners;
  for (const slots of slotsFor(routes, request))
    for (const slot of slots) {
      const best = bestOf(slot, request, tier);
      if (best !== undefined) winners.push(best);
    }
  return winners;
}

/** The slots of the path, and of the path without its file extensions if rules for that apply as well. */
function slotsFor(routes: RouteTrie<Slot[]>, { matchPath, otherPaths }: MatchRequest): Slot[][] {
  const found = routes.find(matchPath);
  return otherPaths ? [...new Set([...found, ...otherPaths.flatMap((path) => routes.find(path))])] : found;
}

/**
 * Leaves out slots that another slot may put aside or change for some callers: they do not apply to everybody. None
 * apply if a rule of the others must see denied requests: it counts them by a caller who must first be known.
 */
function winnersForAnybody(routes: RouteTrie<Slot[]>, request: MatchRequest): readonly Candidate[] {
  if (isOwnPath(request.matchPath)) return [];
  const all = slotsFor(routes, request).flat();
  const slots = all.filter(({ isShadow }) => !isShadow);
  const unsure = slots.filter((slot) => slot.isReplacing && !isForAnybody(slot));
  const multiplying = slots.filter(({ by }) => by === MULTIPLYING);
  const winners = slots.filter(isForAnybody).flatMap((slot) => bestOf(slot, request, undefined) ?? []);
  const sure = withoutReplaced(winners).filter(
    ({ slot }) =>
      !unsure.some((other) => reaches(other, slot)) && !multiplying.some(({ scope }) => scope === slot.scope),
  );
  const mustBeKnown = all.some((slot) => slot.mustSeeDenied && !sure.some((winner) => winner.slot === slot));
  return mustBeKnown ? [] : sure;
}

/** Whether the slot treats all callers of an address alike. */
const isForAnybody = ({ scope, by, asksWho }: Slot) =>
  (scope === 'ip' || scope === 'global' || scope === EVERY_SCOPE) && by === '' && !asksWho;

function matchesOf(winners: readonly Candidate[], said: Said): Match[] {
  const matches: Match[] = [];
  for (const winner of winners) if (!isRepeated(winners, winner)) addMatches(matches, winner, said);
  return matches;
}

/** A rule with several resources can win several slots, but counts once; per route, in the narrowest slot. */
function isRepeated(winners: readonly Candidate[], winner: Candidate): boolean {
  if (winner.rule.resources.length <= 1) return false;
  const isSame = ({ rule }: Candidate) => rule === winner.rule;
  return (isPerRoute(winner.rule) ? winners.findLast(isSame) : winners.find(isSame)) !== winner;
}

interface Said {
  readonly caller: Caller;
  readonly tier: CallerTier | undefined;
  /** Undefined: there is no particular request, so flat costs apply. */
  readonly request?: MatchRequest | undefined;
  /** Rules that multiply limits of this caller. */
  readonly multiplying?: readonly Candidate[] | undefined;
}

const saidOf = (request: MatchRequest, tier: Said['tier'], multiplying?: Said['multiplying']): Said => ({
  caller: request.caller,
  tier,
  request,
  multiplying,
});

/** If the winner is unlimited for the caller's tier, the next rule of the slot does not apply instead. */
function addMatches(into: Match[], winner: Candidate, said: Said): void {
  const { caller, tier, request, multiplying } = said;
  const { costOf, rule, parameters } = winner;
  const times = multiplying?.length ? timesFor(rule, multiplying, caller) : undefined;
  const { counters, matches } = request
    ? countedOf(winner, request.method)
    : { counters: countersOfAll(winner), matches: countedOfAny(winner).matches };
  const isPlain = !winner.slot.asksWho && costOf === undefined && times === undefined;
  if (isPlain && (request || rule.per.length === 0)) {
    for (const match of matches) into.push(match);
    return;
  }
  const cost = request && costOf ? costOf(request) : rule.cost;
  for (const counter of counters) {
    const own = limitIn(counter, caller, tier);
    if (own === null) continue;
    const limit = times === undefined ? own : multiplied(own, times, counter);
    into.push({ rule: counter, limit, cost, times, parameters });
  }
}

function limitIn(counter: CompiledRule, caller: Caller, tier: CallerTier | undefined): number | null {
  const own = limitOfCaller(counter, caller, tier);
  if (own === undefined || own === null) return own === undefined ? counter.limit : null;
  return counter.isBound ? own * counter.boundTimes : own;
}

interface CompiledRoutes {
  readonly routes: RouteTrie<Slot[]>;
  /** All slots but the shadow ones, in the order of their best rules. */
  readonly enforced: readonly Slot[];
  /** The slots of rules that multiply. */
  readonly multiplyingSlots: readonly Slot[];
}

/** The resources of the last snapshot. The next one has almost the same, and parsing them is much of the work. */
let lastParsed: ReadonlyMap<string, ParsedResource> = new Map();

function compileRoutes(rules: readonly PublishedRule[]): CompiledRoutes {
  const routes = createRouteTrie<Slot[]>();
  const enforced: Slot[] = [];
  const multiplyingSlots: Slot[] = [];
  const parsed = new Map<string, ParsedResource>();
  for (const [rank, rule] of [...rules].sort(byRank).entries()) {
    for (const resource of rule.resources) {
      const route = parsed.get(resource) ?? lastParsed.get(resource) ?? parseResource(resource);
      parsed.set(resource, route);
      if (!route.ok) continue;
      const slot = slotFor(rule, route, routes.at(route, createSlots));
      if (isEmpty(slot) && !slot.isShadow) (slot.by === MULTIPLYING ? multiplyingSlots : enforced).push(slot);
      addToSlot(slot, rule, rank, resource);
    }
  }
  lastParsed = parsed;
  return { routes, enforced, multiplyingSlots };
}

const createSlots = (): Slot[] => [];

function slotFor(rule: PublishedRule, route: Slot['route'], slots: Slot[]): Slot {
  const isShadow = isShadowRule(rule);
  const by = slotBy(rule);
  const known = slots.find(
    (slot) => slot.scope === rule.scope && slot.isShadow === isShadow && slot.by === by,
  );
  if (known) return known;
  const slot = createSlot(rule, route);
  slots.push(slot);
  slots.sort((a, b) => placeOf(a) - placeOf(b));
  return slot;
}

// The settings for all rules: one row in Postgres, published with the rules.

/** `log`: every rule only records what it would have done. */
export const ENFORCEMENTS = ['on', 'log'] as const;
export type Enforcement = (typeof ENFORCEMENTS)[number];

/** `ignored`: rules for `/login` apply to `/login.json`, too. */
export const FILE_EXTENSIONS = ['part', 'ignored'] as const;
export type FileExtensions = (typeof FILE_EXTENSIONS)[number];

export interface Settings {
  readonly enforcement: Enforcement;
  readonly fileExtensions: FileExtensions;
}

export const SETTINGS_DEFAULTS = { enforcement: 'on', fileExtensions: 'part' } as const satisfies Settings;
