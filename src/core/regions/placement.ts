// Where a check is counted, and up to which part of its limit: each region has a part, or one region has all of it.
//
// While that is being changed, some isolates still go by the old way and some already by the new one, and what was
// admitted by the old one still counts:
// - other parts: each region has the smaller of its old part and its new one;
// - from parts to one region, or back: the one region counts, with its part, and asks the others for theirs; if it has
//   none, a request must pass by both ways;
// - from one region to another: both must admit.
import { hashTagOf } from '../counting/keys.ts';
import { type CompiledRule, largestCostOf, limitsOf, type RuleLimit } from '../matching/compiled-rule.ts';
import { extraOf, type RuleCheck } from '../matching/plan.ts';
import { isCentral, type Rule, type SharesByRegion, type Split } from '../matching/rule.ts';
import {
  capacityOf,
  homeOf,
  isUsable,
  partsOf,
  type Share,
  type Shares,
  type WeightedRegion,
} from './shares.ts';
import { movingMs } from './terms.ts';

export interface Placement {
  /** What each region may use of the limit, by name; one that is left out has none. */
  readonly parts: Shares;
  /** The only region that counts it. Undefined: every region that has a part. */
  readonly at: string | undefined;
}

export interface Placements {
  /** Mostly one; if there are several, the request must pass by each of them. */
  of(check: RuleCheck, nowMs: number): readonly Placement[];
}

/** One way to place a rule. Compared by identity. */
interface Way {
  readonly shares: SharesByRegion;
  readonly central: boolean;
}

export function createPlacements(split: Split): Placements {
  const ways = new WeakMap<CompiledRule, WayUntil[]>();
  const computed = new WeakMap<Way, { limit: number; parts: Shares; placements: readonly Placement[] }[]>();

  /** Few limits for each way: those of the tiers. */
  const splitBy = (way: Way, check: RuleCheck) => {
    const list = computed.get(way) ?? [];
    const found = list.find(({ limit }) => limit === check.limit);
    if (found) return found;
    const parts = withShortQueues(check.rule, partsOf(check, weighted(way.shares)));
    const made = { limit: check.limit, parts, placements: [{ parts, at: undefined }] };
    computed.set(way, [...list, made]);
    return made;
  };

  const noteWays = (rule: CompiledRule): WayUntil[] => {
    const all = waysOf(rule, split);
    ways.set(rule, all);
    return all;
  };

  return {
    of(asked, nowMs) {
      const check = withLargestCost(asked);
      const all = ways.get(check.rule) ?? noteWays(check.rule);
      // Mostly there is only one, and it is split.
      const [only] = all;
      if (only && all.length === 1 && !only.way.central) return splitBy(only.way, check).placements;
      const active = all.length === 1 ? all : all.filter(({ untilMs }) => nowMs - untilMs < movingMs(check));
      const bySplit = active.filter(({ way }) => !way.central).map(({ way }) => splitBy(way, check).parts);
      const homes = active.filter(({ way }) => way.central).map(({ way }) => homeBy(way, check));
      return together(smallest(bySplit, check), [...new Set(homes)], check);
    },
  };
}

/** Parts that depended on what a request costs would not add up to the limit: the rule alone decides. */
function withLargestCost(check: RuleCheck): RuleCheck {
  const cost = largestCostOf(check.rule);
  return check.cost === cost ? check : { ...check, cost };
}

/** When a rule is no longer being moved: infinite until every region has been told; undefined if it is not moved. */
export function movingUntilMs(rule: Rule, split: Split | undefined, nowMs: number): number | undefined {
  const before = [...(split?.moved?.[rule.id] ?? []), ...(rule.shares ? [] : (split?.before ?? []))];
  if (before.length === 0) return undefined;
  const longestMs = Math.max(0, ...limitsOf(rule).map(holdOfLimit));
  const untilMs = Math.max(...before.map(({ replacedAtMs }) => (replacedAtMs ?? FOREVER) + longestMs));
  return untilMs > nowMs ? untilMs : undefined;
}

const holdOfLimit = ({ algorithm, limit, burst, windowSeconds }: RuleLimit): number =>
  movingMs({ algorithm, limit: limit ?? 1, extra: burst ?? undefined, windowMs: windowSeconds * 1_000 });

/** By parts and in one region: mostly by one of them. */
function together(split: readonly Shares[], homes: readonly string[], check: RuleCheck): Placement[] {
  const hasPart = (at: string) => split.every((parts) => isUsable(check, parts.get(at) ?? NONE));
  if (split.length > 0 && homes.length > 0 && homes.every(hasPart))
    return homes.flatMap((at) => split.map((parts) => ({ parts, at })));
  return [
    ...split.map((parts) => ({ parts, at: undefined })),
    ...homes.map((at) => ({ parts: wholeAt(at, check), at })),
  ];
}

interface WayUntil {
  readonly way: Way;
  /** When everybody had been told that it is replaced; infinite if not, and for the one that holds. */
  readonly untilMs: number;
}

function waysOf(rule: CompiledRule, split: Split): WayUntil[] {
  const present = { shares: rule.shares, central: isCentral(rule), replacedAtMs: null };
  const splits = [...split.before, { shares: split.shares, replacedAtMs: null }];
  return [...(split.moved?.[rule.id] ?? []), present].flatMap(({ shares, central, replacedAtMs }) =>
    splits.map((by) => ({
      way: { shares: shares ? known(shares, by.shares) : by.shares, central },
      untilMs: Math.min(replacedAtMs ?? FOREVER, by.replacedAtMs ?? FOREVER),
    })),
  );
}

const FOREVER = Number.POSITIVE_INFINITY;

/** Whether that region may count it at all, be it with parts of others only. */
export function hasShare({ shares }: CompiledRule, split: Split, region: string): boolean {
  const given = shares ? known(shares, split.shares) : split.shares;
  return (given[region] ?? 0) > 0;
}

/** Without regions that there are not; if none is left, as configured for all rules. */
function known(shares: SharesByRegion, configured: SharesByRegion): SharesByRegion {
  const there = Object.entries(shares).filter(([name]) => Object.hasOwn(configured, name));
  return there.some(([, share]) => share > 0) ? Object.fromEntries(there) : configured;
}

const weighted = (shares: SharesByRegion): WeightedRegion[] =>
  Object.entries(shares).map(([name, share]) => ({ name, share }));

const homeBy = (way: Way, check: RuleCheck): string => homeOf(hashTagOf(check.key), weighted(way.shares));

const wholeAt = (name: string, { limit, extra }: RuleCheck): Shares => new Map([[name, { limit, extra }]]);

/** Of each region the smallest of all its parts. Ways that leave each other nothing stand beside each other. */
function smallest(all: readonly Shares[], check: RuleCheck): readonly Shares[] {
  const found: Shares[] = [];
  for (const way of all) {
    const place = found.findIndex((other) => isAnyUsable(common(other, way), check));
    if (place === -1) found.push(way);
    else found[place] = common(found[place] ?? way, way);
  }
  return found;
}

function common(a: Shares, b: Shares): Shares {
  const parts = [...a].map(([name, part]) => [name, smaller(part, b.get(name) ?? NONE)] as const);
  return a === b ? a : new Map(parts.filter(([, { limit }]) => limit > 0));
}

/** What is more than the whole limit can hold never fits: it is told so by any part. */
function isAnyUsable(parts: Shares, check: RuleCheck): boolean {
  const cost = Math.min(check.cost, capacityOf(check));
  return [...parts.values()].some((part) => isUsable({ ...check, cost }, part));
}

const NONE: Share = { limit: 0, extra: 0 };

const smaller = (a: Share, b: Share): Share => ({
  limit: Math.min(a.limit, b.limit),
  extra: a.extra === undefined ? undefined : Math.min(a.extra, b.extra ?? a.extra),
});

/** A queue that drains more slowly must be shorter, or its wait is longer than the rule allows. */
function withShortQueues(rule: CompiledRule, parts: Shares): Shares {
  if (rule.action !== 'throttle') return parts;
  return new Map(
    [...parts].map(([name, part]) => {
      const longest = extraOf(rule, part.limit) ?? part.limit;
      return [name, { ...part, extra: Math.min(part.extra ?? longest, longest) }];
    }),
  );
}
