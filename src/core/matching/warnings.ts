// What is allowed in a set of rules, but hardly meant.

import { movingUntilMs } from '../regions/placement.ts';
import type { WeightedRegion } from '../regions/shares.ts';
import { formatIpRange, parseIpRange } from './ip.ts';
import { slotOf } from './resource.ts';
import type { Rule, Split, Tier } from './rule.ts';
import { byRank, isShadowRule, methodsOf, specificity } from './snapshot.ts';

export interface RuleWarning {
  readonly ruleIds: readonly string[];
  readonly message: string;
}

export interface WarningsContent {
  readonly rules: readonly Rule[];
  readonly tiers: readonly Tier[];
  /** As configured. */
  readonly regions: readonly WeightedRegion[];
  /** As published, and the time: tells which rules are being moved. */
  readonly split?: Split | undefined;
  readonly nowMs?: number | undefined;
}

export function findWarnings({ rules, tiers, regions, split, nowMs }: WarningsContent): RuleWarning[] {
  return [
    ...tiedGroups(rules).flatMap(tiesIn),
    ...rules.flatMap((rule) =>
      [
        ...tierProblems(rule, tiers),
        ...subjectProblems(rule),
        ...shareProblems(rule, regions),
        ...(nowMs === undefined ? [] : moves(rule, split, nowMs)),
      ].map((message) => ({ ruleIds: [rule.id], message })),
    ),
  ];
}

/** Where it is counted was changed: for a time, callers that are in several regions get less. */
function* moves(rule: Rule, split: Split | undefined, nowMs: number): Iterable<string> {
  const untilMs = movingUntilMs(rule, split, nowMs);
  if (untilMs === undefined) return;
  const end = Number.isFinite(untilMs)
    ? `for ${Math.ceil((untilMs - nowMs) / 1_000)} s more`
    : 'until every region has been told, and two windows more';
  yield `"${rule.name}" is counted in other regions than before: ${end}, a caller in several regions at once may ` +
    'get less than the limit.';
}

/** Rules of one slot with the same priority and specificity, the one that would win first. */
function tiedGroups(rules: readonly Rule[]): Rule[][] {
  const groups = Map.groupBy(rules, (rule) =>
    [rule.scope, isShadowRule(rule), rule.priority, specificity(rule), slotOf(rule.resource)].join(' '),
  );
  return [...groups.values()].filter((group) => group.length > 1).map((group) => group.sort(byRank));
}

/** Each rule with the best one that would take a request from it, by the narrowest thing that they name. */
function tiesIn(group: readonly Rule[]): RuleWarning[] {
  const warnings: RuleWarning[] = [];
  const before = new Map<string, Rule[]>();
  for (const rule of group) {
    const winners = new Set<Rule>();
    for (const name of narrowestOf(rule)) {
      const rivals = before.get(name) ?? [];
      const winner = rivals.find((rival) => couldMeet(rival, rule));
      if (winner) winners.add(winner);
      before.set(name, rivals);
      rivals.push(rule);
    }
    for (const winner of winners) warnings.push(tie(winner, rule));
  }
  return warnings;
}

/** Rules of a group name the same kinds of things, so that two of them meet only if they share one of these. */
function narrowestOf(rule: Rule): readonly string[] {
  const named = [rule.subjects, rule.tiers, methodsOf(rule)].find((list) => list.length > 0);
  return named ? [...new Set(named)] : ['everything'];
}

/** Of two rules that share a subject, if they name any. */
const couldMeet = (a: Rule, b: Rule) => share(methodsOf(a), methodsOf(b)) && share(a.tiers, b.tiers);

const share = (a: readonly string[], b: readonly string[]) =>
  a.length === 0 || b.length === 0 || a.some((name) => b.includes(name));

const tie = (winner: Rule, loser: Rule): RuleWarning => ({
  ruleIds: [winner.id, loser.id],
  message:
    `"${winner.name}" and "${loser.name}" are tied: same scope, resource and priority, and both can apply to ` +
    `one request. Only "${winner.name}" does, its id being the smaller one. Give them different priorities.`,
});

function* tierProblems(rule: Rule, tiers: readonly Tier[]): Iterable<string> {
  const unknown = rule.tiers.filter((name) => !tiers.some((tier) => tier.name === name));
  if (unknown.length > 0) yield `"${rule.name}" names tiers that do not exist: ${unknown.join(', ')}.`;
  const { limitName } = rule;
  if (limitName === null) return;
  if (!tiers.some(({ limits }) => Object.hasOwn(limits, limitName)))
    yield `"${rule.name}" takes the limit "${limitName}", which no tier has: ${
      rule.limit === null ? 'it limits nobody' : `its own limit of ${rule.limit} counts`
    }.`;
  else if (rule.limit === null) yield* unlimitedTiers(rule, limitName, tiers);
  if (rule.limit === null && !tiers.some(({ isDefault }) => isDefault))
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
    yield `"${rule.name}" names IPs as no caller is counted: ${lost.join(', ')}. ` +
      'Write IPv4 as 192.0.2.1, and IPv6 by its prefix as 2001:db8:1:2::/64.';
}

function isCountedSpelling(subject: string): boolean {
  const range = parseIpRange(subject);
  if (!range) return false;
  const spelling = formatIpRange(range);
  return range.groups.length === 2 ? spelling === `${subject}/32` : spelling === subject;
}

/** A region may go after a rule has named it, and a migration may name any. */
function* shareProblems(rule: Rule, regions: readonly WeightedRegion[]): Iterable<string> {
  if (!rule.shares) return;
  const unknown = Object.keys(rule.shares).filter((name) => !regions.some((region) => region.name === name));
  if (unknown.length > 0)
    yield `"${rule.name}" has shares for regions that do not exist: ${unknown.join(', ')}. They are ignored.`;
  if (!regionsOf(rule, regions).some(({ share }) => share > 0))
    yield `"${rule.name}" has no share for any region that exists: those of REGIONS count instead.`;
}

const regionsOf = ({ shares }: Rule, regions: readonly WeightedRegion[]): readonly WeightedRegion[] =>
  shares ? regions.map(({ name }) => ({ name, share: shares[name] ?? 0 })) : regions;
