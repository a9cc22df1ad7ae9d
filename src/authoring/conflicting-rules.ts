// Finds rules of one slot that compete: rules that never win, and rules that are tied.
import type { Caller } from '../core/matching/caller.ts';
import { conditionOf, isPattern, prefixOf } from '../core/matching/conditions.ts';
import { parseResource, slotOf } from '../core/matching/resource.ts';
import type { Rule, Tier } from '../core/matching/rule.ts';
import {
  addToSlot,
  bestOf,
  byRank,
  createSlot,
  EVERY_METHOD,
  isShadowRule,
  methodsOf,
  slotBy,
  specificity,
} from '../core/matching/slots.ts';

export interface RuleWarning {
  readonly ruleIds: readonly string[];
  readonly message: string;
}

/** For a rule with more kinds than this, Weir only looks for a single rule that covers all of them. */
const MAX_KINDS = 10_000;
/** How many winning rules a warning names. */
const MAX_NAMED = 3;

export function findRivals(rules: readonly Rule[], tiers: readonly Tier[]): RuleWarning[] {
  const placed = rules.flatMap((rule) => rule.resources.map((resource) => ({ rule, resource })));
  const slots = Map.groupBy(placed, ({ rule, resource }) =>
    [rule.scope, isShadowRule(rule), slotBy(rule), slotOf(resource)].join(' '),
  );
  return [...slots.values()]
    .filter((group) => group.length > 1)
    .flatMap((group) =>
      rivalsIn(
        group.map(({ rule }) => rule),
        group[0]?.resource ?? '',
        tiers,
      ),
    );
}

function rivalsIn(group: readonly Rule[], resource: string, tiers: readonly Tier[]): RuleWarning[] {
  const ranked = [...group].sort(byRank);
  const winnersOf = findWinners(ranked, resource, tiers);
  const ties = tiedGroups(ranked.filter((rule) => !winnersOf.has(rule))).flatMap(tiesIn);
  return [...[...winnersOf].map(([rule, winners]) => neverWins(rule, winners, resource)), ...ties];
}

/** For each rule that never wins, the rules that win instead. */
function findWinners(
  ranked: readonly Rule[],
  resource: string,
  tiers: readonly Tier[],
): Map<Rule, readonly Rule[]> {
  const winnersOf = new Map<Rule, readonly Rule[]>();
  const [first] = ranked;
  const route = parseResource(resource);
  if (!first || !route.ok) return winnersOf;
  const ruleOf = new Map(ranked.map((rule) => [rule.id, rule]));
  const slot = createSlot(first, route);
  for (const [rank, rule] of ranked.entries()) {
    const winners = new Set<Rule>();
    // The slot holds only better rules. If one of them wins a kind of request, this rule never gets it.
    const isNeverBest = kindsOf(rule, tiers).every(({ method, subject, tenant, tier }) => {
      const caller = callerOf(rule, subject, tenant);
      const winner = bestOf(slot, { method, caller, nowMs: 0 }, tier);
      const known = winner && ruleOf.get(winner.rule.id);
      if (known) winners.add(known);
      return known !== undefined;
    });
    if (isNeverBest) winnersOf.set(rule, [...winners]);
    // A rule with a condition leaves some requests to the others.
    else if (!conditionOf(rule)) addToSlot(slot, { ...rule, limits: [] }, rank, resource);
  }
  return winnersOf;
}

interface Kind {
  readonly method: string;
  readonly subject: string | undefined;
  readonly tenant: string | undefined;
  readonly tier: string | undefined;
}

/** The kinds of requests that a rule applies to: one for each combination of its methods, subjects, tenants and tiers. */
function kindsOf(rule: Rule, tiers: readonly Tier[]): Kind[] {
  const methods = methodsOf(rule);
  const hasDefault = tiers.some(({ isDefault }) => isDefault);
  const everyTier = [...tiers.map(({ name }) => name), ...(hasDefault ? [] : [undefined])];
  const ofMethods = methods.length > 0 ? methods : [EVERY_METHOD];
  const ofSubjects = rule.subjects.length > 0 ? rule.subjects.map(someoneLike) : [undefined];
  const ofTenants = rule.tenants.length > 0 ? rule.tenants.map(someoneLike) : [undefined];
  const ofTiers = rule.tiers.length > 0 ? rule.tiers : everyTier;
  if (ofMethods.length * ofSubjects.length * ofTenants.length * ofTiers.length > MAX_KINDS)
    return [{ method: EVERY_METHOD, subject: undefined, tenant: undefined, tier: undefined }];
  return ofMethods.flatMap((method) =>
    ofSubjects.flatMap((subject) =>
      ofTenants.flatMap((tenant) => ofTiers.map((tier) => ({ method, subject, tenant, tier }))),
    ),
  );
}

/** For a pattern: a matching name that no override spells out. */
const someoneLike = (subject: string): string => (isPattern(subject) ? `${prefixOf(subject)}\0` : subject);

/** A caller with that id in the rule's scope, of that tenant. */
function callerOf({ scope }: Rule, subject: string | undefined, tenant: string | undefined): Caller {
  const ids = {
    tenantId: scope === 'tenant' ? (subject ?? tenant) : tenant,
    userId: subject,
    apiKeyId: subject,
  };
  return { ...ids, ip: scope === 'ip' ? (subject ?? NOBODY) : NOBODY, address: NOBODY };
}

/** A subject that no override names. */
const NOBODY = '';

const neverWins = (rule: Rule, winners: readonly Rule[], resource: string): RuleWarning => ({
  ruleIds: [...winners.map(({ id }) => id), rule.id],
  message:
    `"${rule.name}" never applies${rule.resources.length > 1 ? ` to ${resource}` : ''}: ${inWords(winners)} of the same scope and resource ` +
    `${winners.length > 1 ? 'come' : 'comes'} first for every request. To apply both, put both limits into \`limits\` of ` +
    'one rule. To give some callers another limit, name them in `subjects`, `tenants` or `tiers`.',
});

function inWords(winners: readonly Rule[]): string {
  const named = winners.slice(0, MAX_NAMED).map(({ name }) => `"${name}"`);
  const others = winners.length - named.length;
  return [named.join(', '), ...(others > 0 ? [`${others} more`] : [])].join(' and ');
}

/** Groups of rules of a slot with the same priority and specificity. The winner of a group comes first. */
function tiedGroups(ranked: readonly Rule[]): Rule[][] {
  const groups = Map.groupBy(ranked, (rule) => `${rule.priority} ${specificity(rule)}`);
  return [...groups.values()].filter((group) => group.length > 1);
}

/** Pairs each rule with the best one that ties with it for some request. */
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

/** The rules of a group name the same kinds of things, so two of them meet only if they share one. */
function narrowestOf(rule: Rule): readonly string[] {
  const named = [rule.subjects, rule.tenants, rule.tiers, methodsOf(rule), rule.hosts, rule.routes].find(
    (list) => list.length > 0,
  );
  return named ? [...new Set(named)] : ['everything'];
}

/** Whether one request can meet both rules. They share a subject already, if they name any. */
const couldMeet = (a: Rule, b: Rule) =>
  share(methodsOf(a), methodsOf(b)) &&
  share(a.tenants, b.tenants) &&
  share(a.tiers, b.tiers) &&
  share(a.hosts, b.hosts) &&
  share(a.routes, b.routes);

const share = (a: readonly string[], b: readonly string[]) =>
  a.length === 0 || b.length === 0 || a.some((name) => b.includes(name));

const tie = (winner: Rule, loser: Rule): RuleWarning => ({
  ruleIds: [winner.id, loser.id],
  message:
    `"${winner.name}" and "${loser.name}" are tied: same scope, resource and priority, and both can apply to ` +
    `one request. Only "${winner.name}" applies, because it has the smaller id. To choose which one applies, give ` +
    'them different priorities. To apply both, put both limits into `limits` of one rule.',
});
