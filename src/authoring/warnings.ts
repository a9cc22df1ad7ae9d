// Warnings about rules that are valid but probably not intended.

import { ruleNameOf } from '../core/matching/compiled-rule.ts';
import { isPattern } from '../core/matching/conditions.ts';
import { formatIpRange, parseIpRange } from '../core/matching/ip.ts';
import { slotOf } from '../core/matching/resource.ts';
import {
  isUncounted,
  type Rule,
  type RuleLimit,
  type Split,
  type TenantLimits,
  type Tier,
} from '../core/matching/rule.ts';
import type { WeightedRegion } from '../core/regions/parts.ts';
import { movingUntilMs } from '../core/regions/placement.ts';
import { findRivals, type RuleWarning } from './conflicting-rules.ts';

export type { RuleWarning } from './conflicting-rules.ts';

export interface WarningsContent {
  readonly rules: readonly Rule[];
  readonly tiers: readonly Tier[];
  readonly tenantLimits?: TenantLimits | undefined;
  /** As configured. */
  readonly regions: readonly WeightedRegion[];
  /** The published split, and the time. They show which rules are moving. */
  readonly split?: Split | undefined;
  readonly nowMs?: number | undefined;
  /** Names of subjects that nobody has (`nameOfSubject`). */
  readonly unknown?: ReadonlySet<string> | undefined;
  /** Only warnings about these rule ids are wanted. Undefined: all of them. */
  readonly concerns?: readonly string[] | undefined;
}

export function findWarnings(content: WarningsContent): RuleWarning[] {
  const { rules, tiers, tenantLimits = {}, regions, split, nowMs, unknown, concerns } = content;
  const asked = concerns && new Set(concerns);
  const concerned = asked ? rules.filter(({ id }) => asked.has(id)) : rules;
  if (concerned.length === 0) return [];
  const namesOfTenants = new Set(Object.values(tenantLimits).flatMap(Object.keys));
  return [
    ...findRivals(rivalsOf(concerned, rules), tiers),
    ...sharedPolicies(namesakesOf(concerned, rules)),
    ...concerned.flatMap((rule) =>
      [
        ...tierProblems(rule, tiers, namesOfTenants),
        ...subjectProblems(rule),
        ...(unknown ? unknownSubjects(rule, unknown) : []),
        ...shareProblems(rule, regions),
        ...(nowMs === undefined ? [] : [...endProblems(rule, nowMs), ...moves(rule, split, nowMs)]),
      ].map((message) => ({ ruleIds: [rule.id], message })),
    ),
  ];
}

/** The rule is moving between regions. Until it has moved, callers in several regions get less. */
function* moves(rule: Rule, split: Split | undefined, nowMs: number): Iterable<string> {
  const untilMs = movingUntilMs(rule, split, nowMs);
  if (untilMs === undefined) return;
  const end = Number.isFinite(untilMs)
    ? `for ${Math.ceil((untilMs - nowMs) / 1_000)} s more`
    : 'until every region has been told, and for about two windows after that';
  yield `"${rule.name}" is being moved between regions: ${end}, a caller in several regions at once may ` +
    'get less than the limit.';
}

/** The rules that share a slot with one of the concerned rules: only these need a closer look. */
function rivalsOf(concerned: readonly Rule[], rules: readonly Rule[]): readonly Rule[] {
  if (concerned === rules) return rules;
  const slots = new Set(concerned.flatMap(slotsOf));
  return rules.filter((rule) => slotsOf(rule).some((slot) => slots.has(slot)));
}

function namesakesOf(concerned: readonly Rule[], rules: readonly Rule[]): readonly Rule[] {
  if (concerned === rules) return rules;
  const names = new Set(concerned.map(nameOf));
  return rules.filter((rule) => names.has(nameOf(rule)));
}

/** The publisher keeps rule objects, so their slots are worked out once. */
const slotsKnown = new WeakMap<Rule, readonly string[]>();
const namesKnown = new WeakMap<Rule, string>();

function slotsOf(rule: Rule): readonly string[] {
  const slots = slotsKnown.get(rule) ?? rule.resources.map((resource) => `${rule.scope} ${slotOf(resource)}`);
  slotsKnown.set(rule, slots);
  return slots;
}

function nameOf(rule: Rule): string {
  const name = namesKnown.get(rule) ?? ruleNameOf(rule);
  namesKnown.set(rule, name);
  return name;
}

/** Clients tell limits apart by their policies. Rules of one slot may share one: only one of them applies. */
function sharedPolicies(rules: readonly Rule[]): RuleWarning[] {
  const groups = Map.groupBy(rules.filter(isShownToClients), ruleNameOf);
  return [...groups].flatMap(([policy, group]) => {
    const places = new Map(
      group.map((rule) => [`${rule.scope} ${rule.resources.map(slotOf).sort().join(' ')}`, rule]),
    );
    const [first, second] = places.values();
    if (!first || !second) return [];
    const message =
      `Clients read "${policy}" as the policy of "${first.name}" and of "${second.name}", which limit different ` +
      'things. Give one of them another policy.';
    return [{ ruleIds: [...places.values()].map(({ id }) => id), message }];
  });
}

/** Whether clients read about the rule: not if it only logs or counts nothing. */
const isShownToClients = (rule: Rule) => rule.action !== 'log' && !isUncounted(rule);

function* tierProblems(
  rule: Rule,
  tiers: readonly Tier[],
  namesOfTenants: ReadonlySet<string>,
): Iterable<string> {
  const unknown = rule.tiers.filter((name) => !tiers.some((tier) => tier.name === name));
  if (unknown.length > 0) yield `"${rule.name}" names tiers that do not exist: ${unknown.join(', ')}.`;
  for (const limit of rule.limits)
    if (!namesOfTenants.has(limit.limitName ?? '')) yield* limitNameProblems(rule, limit, tiers);
}

function* limitNameProblems(
  rule: Rule,
  { limit, limitName }: RuleLimit,
  tiers: readonly Tier[],
): Iterable<string> {
  if (limitName === null) return;
  if (!tiers.some(({ limits }) => Object.hasOwn(limits, limitName)))
    yield `"${rule.name}" takes the limit "${limitName}", which no tier has: ${
      limit === null ? 'it limits nobody' : `its own limit of ${limit} applies`
    }.`;
  else if (limit === null) yield* unlimitedTiers(rule, limitName, tiers);
  if (limit === null && !tiers.some(({ isDefault }) => isDefault))
    yield `"${rule.name}" has no limit of its own, and no tier is the default: it does not limit callers without a tier.`;
}

function* unlimitedTiers(rule: Rule, limitName: string, tiers: readonly Tier[]): Iterable<string> {
  const without = tiers
    .filter(({ name }) => rule.tiers.length === 0 || rule.tiers.includes(name))
    .filter(({ limits }) => !Object.hasOwn(limits, limitName))
    .map(({ name }) => name);
  if (without.length > 0)
    yield `"${rule.name}" has no limit of its own, and these tiers have no limit "${limitName}": ` +
      `${without.join(', ')}. It does not limit their callers.`;
}

/** Callers are counted by one spelling of their address; an override in another spelling is never found. */
function* subjectProblems(rule: Rule): Iterable<string> {
  if (rule.scope !== 'ip') return;
  const lost = rule.subjects.filter((subject) => !isCountedSpelling(subject));
  if (lost.length > 0)
    yield `"${rule.name}" names IPs in a spelling that never matches a caller: ${lost.join(', ')}. ` +
      'Write IPv4 as 192.0.2.1, and IPv6 by its prefix as 2001:db8:1:2::/64.';
}

function isCountedSpelling(subject: string): boolean {
  const range = parseIpRange(subject);
  if (!range) return false;
  const spelling = formatIpRange(range);
  return range.groups.length === 2 ? spelling === `${subject}/32` : spelling === subject;
}

export interface NamedSubject {
  readonly kind: keyof typeof UNLESS;
  readonly id: string;
}

/** The users, keys and tenants that a rule names. Patterns are for names that come later. */
export function subjectsNamedBy({ scope, subjects, tenants }: Rule): NamedSubject[] {
  const own = scope === 'user' || scope === 'apiKey' || scope === 'tenant' ? scope : undefined;
  const named = [
    ...(own ? subjects.map((id): NamedSubject => ({ kind: own, id })) : []),
    ...tenants.map((id): NamedSubject => ({ kind: 'tenant', id })),
  ];
  return named.filter(({ id }) => !isPattern(id));
}

export const nameOfSubject = ({ kind, id }: NamedSubject): string => `${kind} ${id}`;

/** A mistake in an override changes nothing, and nobody would notice. */
function* unknownSubjects(rule: Rule, unknown: ReadonlySet<string>): Iterable<string> {
  const lost = subjectsNamedBy(rule).filter((one) => unknown.has(nameOfSubject(one)));
  for (const [kind, named] of Map.groupBy(lost, (one) => one.kind)) {
    const ids = named.slice(0, MAX_NAMED).map(({ id }) => id);
    const others = named.length > MAX_NAMED ? ` and ${named.length - MAX_NAMED} more` : '';
    yield `"${rule.name}" names ${KINDS[kind]} that Weir does not know: ${ids.join(', ')}${others}. ${UNLESS[kind]}`;
  }
}

const MAX_NAMED = 5;
const KINDS = { user: 'users', tenant: 'tenants', apiKey: 'API keys' } as const;
const BY_TOKENS = 'It applies to them only if tokens name them: check the spelling.';
const UNLESS = {
  user: BY_TOKENS,
  tenant: BY_TOKENS,
  apiKey: 'It never applies to them: name keys by their ids.',
} as const;

function* endProblems({ name, validUntilMs }: Rule, nowMs: number): Iterable<string> {
  if (validUntilMs !== null && validUntilMs <= nowMs)
    yield `"${name}" has ended (validUntil ${new Date(validUntilMs).toISOString()}): it never applies.`;
}

/** A rule may name a region that was removed later, and a migration may name any. */
function* shareProblems(rule: Rule, regions: readonly WeightedRegion[]): Iterable<string> {
  if (!rule.shares) return;
  const unknown = Object.keys(rule.shares).filter((name) => !regions.some((region) => region.name === name));
  if (unknown.length > 0)
    yield `"${rule.name}" has shares for regions that do not exist: ${unknown.join(', ')}. They are ignored.`;
  if (!regionsOf(rule, regions).some(({ share }) => share > 0))
    yield `"${rule.name}" has no share for any region that exists: the shares of REGIONS apply instead.`;
}

const regionsOf = ({ shares }: Rule, regions: readonly WeightedRegion[]): readonly WeightedRegion[] =>
  shares ? regions.map(({ name }) => ({ name, share: shares[name] ?? 0 })) : regions;
