// The rules of an episode: sets of one to three that apply to one path, and what is changed about them while it runs.
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/algorithms/registry.ts';
import { RULE_DEFAULTS, type Rule, type SharesByRegion, type Split } from '../../src/core/rule.ts';
import { HAVE_BURST } from '../../src/core/shares.ts';
import type { Random } from '../random.ts';
import { happens, oneOf, wholeBetween } from './draw.ts';

/** Leases are counted in one place, and held: they have tests of their own. */
export const SIMULATED = ALGORITHM_IDS.filter((id) => id !== 'concurrency');

export const SIZES = [
  { limit: 6, windowSeconds: 1 },
  { limit: 10, windowSeconds: 60 },
  { limit: 30, windowSeconds: 60 },
  { limit: 300, windowSeconds: 15 },
] as const;

export interface RuleSet {
  readonly path: string;
  readonly rules: readonly Rule[];
}

export interface Content {
  readonly sets: readonly RuleSet[];
  readonly split: Split;
}

export function drawSets(random: Random, count: number): RuleSet[] {
  const sets = Array.from({ length: count }, (_, i) => {
    const path = `/${i}`;
    const rules = Array.from({ length: happens(random, 0.75) ? 1 : wholeBetween(random, 2, 3) }, (_, j) =>
      drawRule(random, `${i}-${j}`, path, j),
    );
    return { path, rules };
  });
  return sets.map((set, i) => ({
    ...set,
    rules: set.rules.map((rule, j) => ({ ...rule, ordinal: 3 * i + j })),
  }));
}

function drawRule(random: Random, id: string, resource: string, place: number): Rule {
  const algorithm = oneOf(random, SIMULATED);
  const size = oneOf(random, SIZES);
  return {
    ...RULE_DEFAULTS,
    id,
    name: id,
    resource,
    // A slot has one rule: the others of a set are for another scope.
    scope: (['ip', 'user', 'global'] as const)[place] ?? 'ip',
    algorithm,
    ...size,
    ...drawOptions(random, algorithm, size.limit),
    cost: happens(random, 0.8) ? 1 : wholeBetween(random, 2, 3),
    refundOnError: happens(random, 0.15),
    onUnavailable: oneOf(random, ['open', 'open', 'closed', 'local'] as const),
    spill: !happens(random, 0.06),
    central: happens(random, 0.08),
    ordinal: 0,
  };
}

function drawOptions(random: Random, algorithm: AlgorithmId, limit: number): Partial<Rule> {
  if (!happens(random, 0.3)) return {};
  if (algorithm === 'sliding-window-buckets') return { buckets: wholeBetween(random, 2, 12) };
  if (HAVE_BURST.includes(algorithm)) return { burst: oneOf(random, [Math.ceil(limit / 2), 2 * limit]) };
  return {};
}

export const drawShares = (random: Random, names: readonly string[]): SharesByRegion =>
  Object.fromEntries(names.map((name) => [name, happens(random, 0.6) ? 1 : wholeBetween(random, 1, 5)]));

/** One thing is changed, as the publisher would write it at that moment. */
export function drawChange(random: Random, content: Content, names: readonly string[], nowMs: number): Content {
  if (happens(random, 0.25)) {
    const { shares, before } = content.split;
    const split = { shares: drawShares(random, names), before: [...before, { shares, replacedAtMs: nowMs }] };
    return { ...content, split };
  }
  const changed = oneOf(random, content.sets);
  const change = drawRuleChange(random, names, nowMs);
  const sets = content.sets.map((set) =>
    set === changed ? { ...set, rules: set.rules.map((rule, i) => (i === 0 ? change(rule) : rule)) } : set,
  );
  return { ...content, sets };
}

function drawRuleChange(random: Random, names: readonly string[], nowMs: number): (rule: Rule) => Rule {
  const placed = (rule: Rule, changes: Partial<Rule>): Rule => {
    const { shares, central } = rule;
    return {
      ...rule,
      ...changes,
      placedBefore: [...rule.placedBefore, { shares, central, replacedAtMs: nowMs }],
    };
  };
  const changes: readonly ((rule: Rule) => Rule)[] = [
    (rule) => ({ ...rule, limit: oneOf(random, SIZES).limit, burst: null }),
    (rule) => ({ ...rule, burst: HAVE_BURST.includes(rule.algorithm) ? wholeBetween(random, 3, 60) : null }),
    (rule) => placed(rule, { shares: drawShares(random, names) }),
    (rule) => placed(rule, { central: !rule.central }),
  ];
  return oneOf(random, changes);
}
