// Where a check is counted, and up to which part of its limit: each region has a part, or one region has all of it.
// While that is being changed, a region may use only the smallest of its old parts and its new one, until what was
// admitted by the old ones no longer counts. If that leaves nothing to anybody (one region had all, and another one gets
// it), it is counted both ways until then.
import { hashTagOf } from './keys.ts';
import { extraOf, type RuleCheck } from './plan.ts';
import { isCentral, type SharesByRegion, type Split } from './rule.ts';
import {
  type Counting,
  hasBurst,
  homeOf,
  type Placement,
  placementOf,
  type Share,
  type Shares,
  type WeightedRegion,
} from './shares.ts';
import type { CompiledRule } from './snapshot.ts';

/** Until every isolate has heard of a change, also of one that the next cron run publishes. */
export const HEARD_MS = 90_000;

export interface Placements {
  /**
   * What each region may use of the limit, by name; one that is left out has none. Mostly once; if it is several
   * times, the request must be counted by each of them.
   */
  partsOf(check: RuleCheck, nowMs: number): readonly Shares[];
}

/** One way to place a rule. Compared by identity. */
interface Way {
  readonly shares: SharesByRegion;
  readonly central: boolean;
}

export function createPlacements(split: Split): Placements {
  const ways = new WeakMap<CompiledRule, WayUntil[]>();
  const computed = new WeakMap<Way, { limit: number; placement: Placement }[]>();

  /** Few limits for each way: those of the tiers. */
  const placementBy = (way: Way, check: RuleCheck): Placement => {
    if (way.central) return { kind: 'central' };
    const list = computed.get(way) ?? [];
    const found = list.find(({ limit }) => limit === check.limit);
    if (found) return found.placement;
    const placement = placementOf(check, weighted(way.shares));
    computed.set(way, [...list, { limit: check.limit, placement }]);
    return placement;
  };

  const partsBy = (way: Way, check: RuleCheck): Shares => {
    const placement = placementBy(way, check);
    if (placement.kind === 'split') return placement.shares;
    const { limit, extra } = check;
    return new Map([[homeOf(hashTagOf(check.key), weighted(way.shares)), { limit, extra }]]);
  };

  return {
    partsOf(check, nowMs) {
      const all = ways.get(check.rule) ?? waysOf(check.rule, split);
      ways.set(check.rule, all);
      const heldMs = holdMs(check);
      // Mostly there is only one.
      const active = all.length === 1 ? all : all.filter(({ untilMs }) => nowMs - untilMs < heldMs);
      const byWay = active.map(({ way }) => partsBy(way, check)) as [Shares, ...Shares[]];
      const common = byWay.length === 1 ? byWay[0] : smallest(byWay, check);
      const placed = common.size > 0 ? [common] : different(byWay);
      return check.rule.action === 'throttle'
        ? placed.map((parts) => withShortQueue(check.rule, parts))
        : placed;
    },
  };
}

interface WayUntil {
  readonly way: Way;
  /** When it was replaced; infinite for the one that holds. */
  readonly untilMs: number;
}

/** Oldest first, the present one last. */
function waysOf(rule: CompiledRule, split: Split): WayUntil[] {
  const present = { shares: rule.shares, central: isCentral(rule), replacedAtMs: Number.POSITIVE_INFINITY };
  const splits = [...split.before, { shares: split.shares, replacedAtMs: Number.POSITIVE_INFINITY }];
  return [...rule.placedBefore, present]
    .flatMap(({ shares, central, replacedAtMs }) =>
      splits.map((by) => ({
        way: { shares: shares ? known(shares, by.shares) : by.shares, central },
        untilMs: Math.min(replacedAtMs, by.replacedAtMs),
      })),
    )
    .sort((a, b) => a.untilMs - b.untilMs);
}

/** Without regions that there are not; if none is left, as configured for all rules. */
function known(shares: SharesByRegion, configured: SharesByRegion): SharesByRegion {
  const there = Object.entries(shares).filter(([name]) => Object.hasOwn(configured, name));
  return there.some(([, share]) => share > 0) ? Object.fromEntries(there) : configured;
}

/**
 * As long as something that was admitted before may still count: two windows, or until a full bucket has drained, which
 * takes longer where parts are rounded.
 */
function holdMs({ windowMs, limit, extra, algorithm }: RuleCheck): number {
  const burst = hasBurst({ algorithm }) ? (extra ?? 0) : 0;
  return HEARD_MS + 2 * windowMs + Math.ceil((4 * windowMs * burst) / limit);
}

const weighted = (shares: SharesByRegion): WeightedRegion[] =>
  Object.entries(shares).map(([name, share]) => ({ name, share }));

/** Of each region the smallest of all its parts; none, if it has none in one of them, or no request would fit. */
function smallest([first, ...others]: readonly [Shares, ...Shares[]], counting: Counting): Shares {
  const parts = new Map<string, Share>();
  for (const [name, part] of first) {
    const all = [part, ...others.map((other) => other.get(name) ?? NONE)];
    const limit = Math.min(...all.map((one) => one.limit));
    const extra =
      part.extra === undefined ? undefined : Math.min(...all.map((one) => one.extra ?? part.extra ?? 0));
    const most = hasBurst(counting) ? Math.min(limit, extra ?? limit) : limit;
    if (most >= counting.cost) parts.set(name, { limit, extra });
  }
  return parts;
}

const NONE: Share = { limit: 0, extra: 0 };

const different = (all: readonly Shares[]): Shares[] => [
  ...new Map(all.map((shares) => [JSON.stringify([...shares].sort()), shares])).values(),
];

/** A queue that drains more slowly must be shorter, or its wait is longer than the rule allows. */
function withShortQueue(rule: CompiledRule, parts: Shares): Shares {
  return new Map(
    [...parts].map(([name, part]) => {
      const longest = extraOf(rule, part.limit) ?? part.limit;
      return [name, { ...part, extra: Math.min(part.extra ?? longest, longest) }];
    }),
  );
}
