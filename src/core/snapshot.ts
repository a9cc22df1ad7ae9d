// All rules, compiled for matching, under one version. Immutable: a change is a new snapshot.
import { counterId, groupOf } from './keys.ts';
import { compileResource } from './resource.ts';
import type { Rule } from './rule.ts';

/** A rule with what can be worked out before any request comes. */
export interface CompiledRule extends Rule {
  readonly counterId: string;
  /** Which of the subject's keys its counter is in. */
  readonly counterGroup: string;
}

export interface Snapshot {
  readonly version: string;
  readonly ruleCount: number;
  /** The rules that apply to a canonical match path: the best one of each (scope, resource) slot. */
  match(matchPath: string): readonly CompiledRule[];
}

/** The port between the gateway and wherever snapshots come from. */
export interface SnapshotSource {
  /** The rules to decide by, or undefined if this isolate has never seen any. */
  current(afterResponse: (work: Promise<unknown>) => void): Promise<Snapshot | undefined>;
}

export async function compileSnapshot(version: string, rules: readonly Rule[]): Promise<Snapshot> {
  const compiled = await Promise.all(
    bestOfEachSlot(rules).map(async (rule) => ({
      rule: await compileRule(rule),
      matches: compileResource(rule.resource),
    })),
  );
  return {
    version,
    ruleCount: rules.length,
    match: (path) => compiled.filter(({ matches }) => matches(path)).map(({ rule }) => rule),
  };
}

async function compileRule(rule: Rule): Promise<CompiledRule> {
  const id = await counterId(rule.id, rule.algorithm, rule.windowSeconds * 1000);
  return { ...rule, counterId: id, counterGroup: groupOf(rule.algorithm, id) };
}

/** Lowest priority number first, then the id, so that a tie has the same winner everywhere. */
function bestOfEachSlot(rules: readonly Rule[]): Rule[] {
  const slots = new Map<string, Rule>();
  for (const rule of [...rules].sort(byPriorityThenId)) {
    const slot = `${rule.scope} ${rule.resource.toLowerCase()}`;
    if (!slots.has(slot)) slots.set(slot, rule);
  }
  return [...slots.values()];
}

const byPriorityThenId = (a: Rule, b: Rule) => a.priority - b.priority || (a.id < b.id ? -1 : 1);
