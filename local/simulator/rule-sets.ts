// The rules of an episode: sets of one to three that apply to one path, and their changes during the episode.
import { ALGORITHM_IDS, type AlgorithmId, idsWith } from '../../src/core/counting/algorithms/registry.ts';
import { hasBurst } from '../../src/core/counting/capacity.ts';
import { RULE_DEFAULTS, toRule } from '../../src/core/matching/flat-rule.ts';
import {
  isCentral,
  type PlacedBefore,
  type SharesByRegion,
  type Split,
} from '../../src/core/matching/rule.ts';
import type { Random } from '../random.ts';
import type { LimitedRule } from '../rules.ts';
import { happens, oneOf, wholeBetween } from './draw.ts';

/** Seats are held in one region. They have tests of their own. */
export const SIMULATED = ALGORITHM_IDS.filter((id) => id !== 'concurrency');

const LEASED = idsWith(({ leaseCellMs }) => leaseCellMs !== undefined);

/** Large and fast enough for leases. */
const HOT_SIZE = { limit: 2_000, windowSeconds: 10 } as const;

export const SIZES = [
  { limit: 6, windowSeconds: 1 },
  { limit: 10, windowSeconds: 60 },
  { limit: 30, windowSeconds: 60 },
  { limit: 300, windowSeconds: 15 },
  HOT_SIZE,
] as const;

export interface RuleSet {
  readonly path: string;
  readonly rules: readonly LimitedRule[];
}

/** A former way to count, and the content of the episode that replaced it. */
type Replaced<T> = T & { readonly by: number };

/** The content of a publication. */
export interface Content {
  readonly sets: readonly RuleSet[];
  readonly shares: SharesByRegion;
  readonly sharesBefore: readonly Replaced<{ readonly shares: SharesByRegion }>[];
  /** By the id of the rule. */
  readonly moved: Readonly<Record<string, readonly Replaced<Omit<PlacedBefore, 'replacedAtMs'>>[]>>;
}

/**
 * The split as the publisher writes it: see src/rules/publishing/placements.ts. `endOf` returns when a replaced way
 * ends; null if not every region announces the new one.
 */
export function toSplit(
  { sets, shares, sharesBefore, moved }: Content,
  endOf: (by: number) => number | null,
): Split {
  const rules = new Map(sets.flatMap((set) => set.rules.map((rule) => [rule.id, rule])));
  const isSame = (way: Omit<PlacedBefore, 'replacedAtMs'>, rule: LimitedRule | undefined) =>
    rule &&
    way.central === isCentral(toRule(rule)) &&
    JSON.stringify(way.shares) === JSON.stringify(rule.shares);
  return {
    shares,
    before: sharesBefore.map(({ by, ...way }) => ({ ...way, replacedAtMs: endOf(by) })),
    moved: Object.fromEntries(
      Object.entries(moved).map(([id, ways]) => [
        id,
        ways
          .filter((way) => !isSame(way, rules.get(id)))
          .map(({ by, ...way }) => ({ ...way, replacedAtMs: endOf(by) })),
      ]),
    ),
  };
}

/** All rules of the first sets can be leased. */
const HOT_SETS = 2;

export const isHot = ({ path }: Pick<RuleSet, 'path'>): boolean => Number(path.slice(1)) < HOT_SETS;

export function drawSets(random: Random, count: number): RuleSet[] {
  const sets = Array.from({ length: count }, (_, i) => {
    const path = `/${i}`;
    const rules = Array.from({ length: happens(random, 0.65) ? 1 : wholeBetween(random, 2, 3) }, (_, j) => {
      const rule = drawRule(random, `${i}-${j}`, path, j);
      return isHot({ path }) ? heat(random, rule) : rule;
    });
    return { path, rules };
  });
  return sets.map((set, i) => ({
    ...set,
    rules: set.rules.map((rule, j) => ({ ...rule, ordinal: 3 * i + j })),
  }));
}

function drawRule(random: Random, id: string, resource: string, place: number): LimitedRule {
  const algorithm = oneOf(random, SIMULATED);
  const size = oneOf(random, SIZES);
  return {
    ...RULE_DEFAULTS,
    id,
    name: id,
    resource,
    // A slot has one winner, so the other rules of a set have other scopes.
    scope: (['ip', 'user', 'global'] as const)[place] ?? 'ip',
    algorithm,
    ...size,
    ...drawOptions(random, algorithm, size.limit),
    cost: happens(random, 0.8) ? 1 : wholeBetween(random, 2, 3),
    refundOnError: happens(random, 0.15),
    onUnavailable: oneOf(random, ['open', 'open', 'closed', 'local'] as const),
    spill: !happens(random, 0.06),
    central: happens(random, 0.08),
    lease: happens(random, 0.5),
    ordinal: 0,
  };
}

function heat(random: Random, rule: LimitedRule): LimitedRule {
  const algorithm = oneOf(random, LEASED);
  const options = { burst: null, buckets: null, ...drawOptions(random, algorithm, HOT_SIZE.limit) };
  return { ...rule, algorithm, ...HOT_SIZE, ...options, refundOnError: false, lease: true };
}

function drawOptions(random: Random, algorithm: AlgorithmId, limit: number): Partial<LimitedRule> {
  if (!happens(random, 0.3)) return {};
  if (algorithm === 'sliding-window-buckets') return { buckets: wholeBetween(random, 2, 12) };
  if (hasBurst({ algorithm })) return { burst: oneOf(random, [Math.ceil(limit / 2), 2 * limit]) };
  return {};
}

export const drawShares = (random: Random, names: readonly string[]): SharesByRegion =>
  Object.fromEntries(names.map((name) => [name, happens(random, 0.6) ? 1 : wholeBetween(random, 1, 5)]));

/** Changes one thing about the content. `by` is the number of the new content. */
export function drawChange(random: Random, content: Content, names: readonly string[], by: number): Content {
  if (happens(random, 0.25)) {
    const { shares, sharesBefore } = content;
    return { ...content, shares: drawShares(random, names), sharesBefore: [...sharesBefore, { shares, by }] };
  }
  const changed = oneOf(random, content.sets);
  const [before, ...others] = changed.rules;
  if (!before) return content;
  const after = drawRuleChange(random, before, names);
  const isMoved = isCentral(toRule(before)) !== isCentral(toRule(after)) || before.shares !== after.shares;
  const way = { shares: before.shares, central: isCentral(toRule(before)), by };
  return {
    ...content,
    sets: content.sets.map((set) => (set === changed ? { ...set, rules: [after, ...others] } : set)),
    moved: isMoved
      ? { ...content.moved, [before.id]: [...(content.moved[before.id] ?? []), way] }
      : content.moved,
  };
}

function drawRuleChange(random: Random, rule: LimitedRule, names: readonly string[]): LimitedRule {
  const changes: readonly (() => Partial<LimitedRule>)[] = [
    () => ({ limit: oneOf(random, SIZES).limit, burst: null }),
    () => ({ burst: hasBurst(rule) ? wholeBetween(random, 3, 60) : null }),
    () => ({ shares: drawShares(random, names) }),
    () => ({ central: !rule.central }),
  ];
  return { ...rule, ...oneOf(random, changes)() };
}
