// Rules by name, for checks without a request.
import { type CompiledRule, countersOf, type PublishedRule } from './compiled-rule.ts';
import { ruleNameOf } from './policy.ts';

/** How a check names its rule: by id or name, or by the policy that clients read. */
export interface RuleName {
  readonly rule?: string | undefined;
  readonly policy?: string | undefined;
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
    tables ??= { byRule: tableOf(rules, ({ id, name }) => [id, name]), byPolicy: tableOf(rules, policyOf) };
    const found = rule === undefined ? tables.byPolicy.get(policy ?? '') : tables.byRule.get(rule);
    return found ?? [];
  };
}

type Table = Map<string, NamedRule[]>;

const policyOf = (rule: PublishedRule) => [ruleNameOf(rule)];

function tableOf(rules: readonly PublishedRule[], namesOf: (rule: PublishedRule) => string[]): Table {
  const table: Table = new Map();
  for (const rule of rules) {
    const named = { rule, counters: countersOf(rule) };
    for (const name of new Set(namesOf(rule))) table.set(name, [...(table.get(name) ?? []), named]);
  }
  return table;
}
