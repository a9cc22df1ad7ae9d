// Where a check is counted, and up to which part of its limit: each region has a part, or one region has all of it.
//
// While a placement changes, some isolates still use the old one and some already the new one, and requests admitted by
// the old one still count:
// - other parts: each region uses the smaller of its old part and its new one;
// - from parts to one region, or back: the one region counts with its part and asks the others for theirs; if it has no
//   part, a request must pass both placements;
// - from one region to another: both must admit, the old one first. So a request is never charged earlier in the new
//   region than in the old one, and no window that spans the change holds more than one of the two has counted:
//   docs/regions.md.

import { type AlgorithmId, traitsOf } from '../counting/algorithms/registry.ts';
import type { Borders } from '../counting/calendar.ts';
import { capacityOf, hasBurst } from '../counting/capacity.ts';
import { hashTagOf } from '../counting/keys.ts';
import { mapStable } from '../map-stable.ts';
import { type CompiledRule, largestCostOf } from '../matching/compiled-rule.ts';
import { extraOf, type RuleCheck } from '../matching/plan.ts';
import { isCentral, type Rule, type RuleLimit, type SharesByRegion, type Split } from '../matching/rule.ts';
import {
  centralRegionOf,
  isUsable,
  type Part,
  type Parts,
  partsOf,
  type SplitLimit,
  type WeightedRegion,
} from './parts.ts';

// How long a transfer, a charge and the move of a rule last between regions.

/** The most that two clocks may differ, and the longest that a command may be under way. */
export const CLOCK_SLACK_MS = 5_000;

/** A transfer lasts this many windows, within these bounds. A caller that moves to another region waits for its end. */
const TERM_WINDOWS = 4;
const SHORTEST_TERM_MS = 30_000;
const LONGEST_TERM_MS = 600_000;

/**
 * Rules that no region has confirmed for this long may place a limit where it is no longer counted. If newer rules are
 * announced, a request waits for them.
 */
export const RULES_LAPSE_MS = 60_000;
/**
 * Once every region has an announcement, older rules lapse everywhere: after this time, no isolate uses them. The extra
 * 30 s cover clocks that differ and commands that are late.
 */
export const OLD_RULES_GONE_MS = RULES_LAPSE_MS + 30_000;
/** A charge counts for at most two windows, or until a burst has drained, which takes longer with rounded parts. */
export const CHARGE_WINDOWS = 2;
export const BURST_DRAIN_TIMES = 4;

interface Timed {
  readonly algorithm: AlgorithmId;
  readonly windowMs: number;
  readonly borders?: Borders | undefined;
}

export const termMs = ({ windowMs }: Pick<Timed, 'windowMs'>): number =>
  Math.min(LONGEST_TERM_MS, Math.max(SHORTEST_TERM_MS, TERM_WINDOWS * windowMs));

/** The longest time for which a charge can count, by the whole limit or its slowest part, plus the clock difference. */
export function holdMs(check: Timed & { readonly full: Part }, parts: Parts): number {
  const { chargeLastsMs } = traitsOf(check.algorithm);
  const ways = [check.full, ...parts.values()].filter(({ limit }) => limit > 0);
  return Math.max(...ways.map((way) => chargeLastsMs({ ...check, ...way }))) + CLOCK_SLACK_MS;
}

/** How long charges from before a move may still count, whatever the parts were. */
export function movingMs({ windowMs, limit, extra, algorithm }: Timed & Omit<SplitLimit, 'cost'>): number {
  const burst = hasBurst({ algorithm }) ? (extra ?? 0) : 0;
  return (
    OLD_RULES_GONE_MS + CHARGE_WINDOWS * windowMs + Math.ceil((BURST_DRAIN_TIMES * windowMs * burst) / limit)
  );
}

/** The part of a limit that split parts may leave unused. */
const MAX_LOST = 0.01;

/** Whether parts used side by side would lose too much of this limit. Then one region counts it. */
export function isMerged(
  check: { readonly algorithm: AlgorithmId; readonly full: Part; readonly cost: number },
  parts: Parts,
): boolean {
  const { roundsEachPart } = traitsOf(check.algorithm);
  return roundsEachPart === true && (parts.size - 1) * check.cost > MAX_LOST * check.full.limit;
}

export interface Placement {
  /** The part of each region, by name. A region that is not listed has none. */
  readonly parts: Parts;
  /** The only region that counts the check. Undefined: every region with a part counts it. */
  readonly at: string | undefined;
}

export interface Placements {
  /** Mostly one placement. If there are several, the request must pass all of them, older before newer. */
  of(check: RuleCheck, nowMs: number): readonly Placement[];
}

/** A check of a request, with each region's part of its limit. */
export interface PlacedCheck extends Placement {
  readonly check: RuleCheck;
  /** The split that the check was placed by. */
  readonly split: Split;
}

/**
 * Whether the rule is moving, so that old and new placement may both count: the rule itself has changed, or new shares
 * give a central rule another region.
 */
export const isBeingMoved = ({ check, split, at }: PlacedCheck): boolean =>
  (split.moved?.[check.rule.id]?.length ?? 0) > 0 || (at !== undefined && split.before.length > 0);

/** Whether a region can use the parts of others. */
export const isShared = ({ check, parts, at }: PlacedCheck): boolean =>
  parts.size > 1 && (at !== undefined || check.rule.spill);

export type PlaceChecks = (
  checks: readonly RuleCheck[],
  regions: readonly [{ readonly name: string }, ...{ readonly name: string }[]],
  split: Split | undefined,
) => readonly PlacedCheck[];

/**
 * Places the checks of requests. With a single region, checks stay as they are. The configured `shares` apply to
 * snapshots that predate regional splits.
 */
export function createPlacer(shares: SharesByRegion, now: () => number): PlaceChecks {
  const configured: Split = { shares, before: [] };
  const known = new WeakMap<Split, Placements>();
  const placementsOf = (split: Split): Placements => {
    const found = known.get(split) ?? createPlacements(split);
    known.set(split, found);
    return found;
  };
  return (checks, regions, split = configured) => {
    if (regions.length === 1 && isSettled(checks, split))
      return mapStable(checks, (check) => {
        const { parts, at } = wholeAt(regions[0].name, check);
        return { check, split, parts, at };
      });
    const placements = placementsOf(split);
    const nowMs = now();
    const placed: PlacedCheck[] = [];
    for (const check of checks)
      for (const { parts, at } of placements.of(check, nowMs)) placed.push({ check, split, parts, at });
    return placed;
  };
}

/** No rule is moving. */
const isSettled = (checks: readonly RuleCheck[], { before, moved }: Split) =>
  before.length === 0 && (!moved || checks.every(({ rule }) => !moved[rule.id]));

/** One way to place a rule. */
interface PlacementOption {
  /** Higher for newer ones. */
  readonly order: number;
  readonly regions: readonly WeightedRegion[];
  readonly central: boolean;
  /** When every region had the announcement of the replacement; infinite before that, and for the one in force. */
  readonly untilMs: number;
  /** Cached parts of the last limits: one for each tier, or for each claim. A multiplying rule may change the burst alone. */
  readonly byLimit: Map<
    number,
    { readonly extra: number | undefined; readonly placed: readonly [Placement] }
  >;
}

export function createPlacements(split: Split): Placements {
  const known = new WeakMap<CompiledRule, readonly PlacementOption[]>();
  const notePlacementOptions = (rule: CompiledRule) => {
    const options = placementOptionsOf(rule, split);
    known.set(rule, options);
    return options;
  };
  return {
    of(asked, nowMs) {
      const check = withLargestCost(asked);
      const options = known.get(check.rule) ?? notePlacementOptions(check.rule);
      const [only] = options;
      if (only && options.length === 1) return placeBy(only, check);
      const active = options.filter(({ untilMs }) => nowMs - untilMs < movingMs(check));
      return together(active, check);
    },
  };
}

/** Of one rule. Callers may have any number of limits, because those come from claims. */
const MAX_CACHED_LIMITS = 100;

function placeBy({ central, regions, byLimit }: PlacementOption, check: RuleCheck): readonly [Placement] {
  if (central) return [wholeAt(centralRegionOf(hashTagOf(check.key), regions), check)];
  const found = byLimit.get(check.limit);
  if (found && found.extra === check.extra) return found.placed;
  const placed = [{ parts: withShortQueues(check.rule, partsOf(check, regions)), at: undefined }] as const;
  if (byLimit.size >= MAX_CACHED_LIMITS) byLimit.clear();
  byLimit.set(check.limit, { extra: check.extra, placed });
  return placed;
}

/** The placement that gives one region the whole limit. */
export const wholeAt = (at: string, { limit, extra }: RuleCheck): Placement => ({
  parts: new Map([[at, { limit, extra }]]),
  at,
});

/** Uses the largest cost of the rule: parts that depended on a request's cost would not add up to the limit. */
function withLargestCost(check: RuleCheck): RuleCheck {
  const cost = largestCostOf(check.rule);
  return check.cost === cost ? check : { ...check, cost };
}

/** When a rule stops moving: infinite until every region has the announcement; undefined if the rule is not moving. */
export function movingUntilMs(rule: Rule, split: Split | undefined, nowMs: number): number | undefined {
  const before = [...(split?.moved?.[rule.id] ?? []), ...(rule.shares ? [] : (split?.before ?? []))];
  if (before.length === 0) return undefined;
  const longestMs = Math.max(0, ...rule.limits.map(holdOfLimit));
  const untilMs = Math.max(...before.map(({ replacedAtMs }) => (replacedAtMs ?? FOREVER) + longestMs));
  return untilMs > nowMs ? untilMs : undefined;
}

const holdOfLimit = ({ algorithm, limit, burst, windowSeconds }: RuleLimit): number =>
  movingMs({ algorithm, limit: limit ?? 1, extra: burst ?? undefined, windowMs: windowSeconds * 1_000 });

/**
 * Joins each placement with another if the result has a usable part. Otherwise both stay, and both must admit, older
 * before newer.
 */
function together(options: readonly PlacementOption[], check: RuleCheck): Placement[] {
  // A cost above the whole limit never fits, so any part can deny it.
  const fitting = { ...check, cost: Math.min(check.cost, capacityOf(check)) };
  const found: { readonly placement: Placement; readonly order: number }[] = [];
  for (const option of options) {
    const { order } = option;
    const [placement] = placeBy(option, check);
    const joined = found.map((other) => join(other.placement, placement, fitting));
    const place = joined.findIndex(Boolean);
    // Options of one kind come older before newer, but all splits come before all single regions.
    const newest = Math.max(order, found[place]?.order ?? order);
    found.splice(place === -1 ? found.length : place, 1, {
      placement: joined[place] ?? placement,
      order: newest,
    });
  }
  return found.sort((a, b) => a.order - b.order).map(({ placement }) => placement);
}

/** Splits come first in the list, so either both are splits, or the second placement is in one region. */
function join(a: Placement, b: Placement, check: SplitLimit): Placement | undefined {
  const isUsableIn = (part: Part | undefined) => part !== undefined && isUsable(check, part);
  if (b.at === undefined) {
    const parts = smaller(a.parts, b.parts);
    return [...parts.values()].some(isUsableIn) ? { parts, at: undefined } : undefined;
  }
  const isThere = (a.at ?? b.at) === b.at && isUsableIn(a.parts.get(b.at));
  return isThere ? { parts: a.parts, at: b.at } : undefined;
}

/** Splits first, then placements in one region, older before newer. */
function placementOptionsOf(rule: CompiledRule, split: Split): PlacementOption[] {
  const present = { shares: rule.shares, central: isCentral(rule), replacedAtMs: null };
  const splits = [...split.before, { shares: split.shares, replacedAtMs: null }];
  const options = [...(split.moved?.[rule.id] ?? []), present].flatMap(({ shares, central, replacedAtMs }) =>
    splits.map((by) => ({
      regions: weighted(shares ? known(shares, by.shares) : by.shares),
      central,
      untilMs: Math.min(replacedAtMs ?? FOREVER, by.replacedAtMs ?? FOREVER),
      byLimit: new Map(),
    })),
  );
  return options
    .map((option, order) => ({ ...option, order }))
    .sort((a, b) => Number(a.central) - Number(b.central));
}

const FOREVER = Number.POSITIVE_INFINITY;

/** Whether that region may count the rule at all, even if only with parts of others. */
export function hasShare({ shares }: CompiledRule, split: Split, region: string): boolean {
  const given = shares ? known(shares, split.shares) : split.shares;
  return (given[region] ?? 0) > 0;
}

/** Drops unknown regions. If none is left, the configured shares apply. */
function known(shares: SharesByRegion, configured: SharesByRegion): SharesByRegion {
  const there = Object.entries(shares).filter(([name]) => Object.hasOwn(configured, name));
  return there.some(([, share]) => share > 0) ? Object.fromEntries(there) : configured;
}

const weighted = (shares: SharesByRegion): WeightedRegion[] =>
  Object.entries(shares).map(([name, share]) => ({ name, share }));

/** For each region, the smaller of its two parts. */
function smaller(a: Parts, b: Parts): Parts {
  const parts = [...a].flatMap(([name, { limit, extra }]) => {
    const other = b.get(name) ?? { limit: 0, extra: 0 };
    const least = extra === undefined ? undefined : Math.min(extra, other.extra ?? extra);
    return other.limit > 0 ? [[name, { limit: Math.min(limit, other.limit), extra: least }] as const] : [];
  });
  return new Map(parts.filter(([, { limit }]) => limit > 0));
}

/** A part drains more slowly, so its queue must be shorter: otherwise the wait would exceed what the rule allows. */
function withShortQueues(rule: CompiledRule, parts: Parts): Parts {
  if (rule.action !== 'throttle') return parts;
  return new Map(
    [...parts].map(([name, part]) => {
      const longest = extraOf(rule, part.limit) ?? part.limit;
      return [name, { ...part, extra: Math.min(part.extra ?? longest, longest) }];
    }),
  );
}
