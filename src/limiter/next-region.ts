// Which region the isolate asks next about a check: to count it, to stand in for its owner, or for its part.

import { mapStable } from '../core/map-stable.ts';
import { type RuleCheck, standInAt } from '../core/matching/plan.ts';
import type { SharesByRegion, Split } from '../core/matching/rule.ts';
import { isUsable } from '../core/regions/parts.ts';
import { createPlacements, type Placement, type Placements, wholeAt } from '../core/regions/placement.ts';
import { isFailure, type Pending, setVerdict, type Turn } from './count.ts';
import type { KnownDenials } from './memory.ts';
import type { LimiterRegion, Regions } from './region-calls.ts';
import type { TransferRequest, Transfers } from './transfers.ts';

// While the owner of a counter does not answer, another region stands in for it. It counts in a counter of another id,
// with the whole limit. Which region that is depends on the owner, not on the caller, so all isolates that cannot reach
// the owner agree on it, and at most the limit passes once more. When the owner answers again, no isolate asks the
// stand-in any more. Its counter expires by itself. docs/regions.md explains the rest.

export interface StandInOptions {
  readonly transfers: Pick<Transfers, 'ownerOf'>;
  /** Whether the breaker lets requests call the region. */
  readonly isClosed: (region: LimiterRegion) => boolean;
}

/**
 * The next region that may stand in for the owner of a check that no region may count by itself; undefined if there is
 * none, if no region has failed, or if a region has denied the check: a region without an answer does not overrule it.
 */
export function standInOf(
  one: Pending,
  regions: Regions,
  { transfers, isClosed }: StandInOptions,
): Turn | undefined {
  if (regions.length === 1) return undefined;
  const { placed, verdicts } = one;
  const name = transfers.ownerOf(placed);
  const owner = regions.find((region) => region.name === name);
  const answers = [...verdicts.values()];
  const hasFailed = !owner || answers.some(isFailure) || regions.some((region) => !isClosed(region));
  if (!hasFailed || answers.some(({ outcome }) => outcome)) return undefined;
  // A region that was removed has no neighbours. The order of names is the same for all isolates, too.
  const order = owner?.neighbours ?? regions.map((region) => region.name).sort();
  for (const next of order) {
    const region = regions.find((candidate) => candidate.name === next);
    if (region && isClosed(region) && !verdicts.has(next))
      return { region, check: standInAt(next, placed.check), ones: [one] };
  }
  return undefined;
}

export interface NextRegionOptions {
  readonly denials: KnownDenials;
  readonly transfers: Transfers;
  readonly isClosed: (region: LimiterRegion) => boolean;
  readonly now: () => number;
}

export interface NextRegion {
  /**
   * The next region to try; undefined if no region is left to try. With an announcement, the isolate uses a denial that
   * it remembers instead of a call.
   */
  turnOf(one: Pending, regions: Regions, announcement: string | undefined): Turn | undefined;
  /** The region that stands in for the owner of a check, if no other region can count it. */
  standInTurnOf(one: Pending, regions: Regions, announcement: string | undefined): Turn | undefined;
  /** The region whose part the owner of the check should get before the next region counts. */
  partRequestOf(one: Pending, regions: Regions): TransferRequest | undefined;
}

export function createNextRegion({ now, denials, transfers, isClosed }: NextRegionOptions): NextRegion {
  const knownDenial = (region: LimiterRegion, check: RuleCheck, announcement: string | undefined) =>
    announcement !== undefined && denials.size > 0
      ? denials.find(region.name, check, now(), announcement)
      : undefined;

  const turnOf: NextRegion['turnOf'] = (one, regions, announcement) => {
    const { placed } = one;
    const near = transfers.checkAt(placed, regions[0].name);
    // The usual case: the nearest region counts the check, and no transfer has to be looked up.
    for (const region of near ? regions : transfers.candidates(placed, regions)) {
      const check = region === regions[0] ? near : transfers.checkAt(placed, region.name);
      if (!check) continue;
      const verdict = one.verdicts.get(region.name);
      // The region's part was smaller when the region denied the check.
      const hasMore = verdict?.outcome !== undefined && verdict.check.limit < check.limit;
      if (!verdict || hasMore) {
        const outcome = knownDenial(region, check, announcement);
        if (!outcome) return { region, check, ones: [one] };
        setVerdict(one, region.name, { check, outcome });
      }
      if (one.verdicts.get(region.name)?.outcome && !placed.check.rule.spill) return undefined;
    }
    return undefined;
  };

  const standInTurnOf: NextRegion['standInTurnOf'] = (one, regions, announcement) => {
    for (;;) {
      const turn = standInOf(one, regions, { transfers, isClosed });
      const known = turn && knownDenial(turn.region, turn.check, announcement);
      if (!turn || !known) return turn;
      setVerdict(one, turn.region.name, { check: turn.check, outcome: known });
    }
  };

  /** The owner has denied the check or has no part. Parts of idle regions help more than a single charge elsewhere. */
  const partRequestOf: NextRegion['partRequestOf'] = ({ placed, verdicts }, regions) => {
    const owner = placed.at ?? regions[0].name;
    const part = placed.parts.get(owner);
    const hasPart = part !== undefined && isUsable(placed.check, part);
    if (hasPart && verdicts.get(owner)?.outcome === undefined) return undefined;
    const own = regions.find(({ name }) => name === owner);
    // No region could use a part that is transferred to a region that does not answer.
    if (!hasPart && !(own?.distance.ms() !== undefined && isClosed(own))) return undefined;
    const from = regions.find((region) => isClosed(region) && transfers.isMissing(placed, owner, region));
    return from && { placed, from, owner };
  };

  return { turnOf, standInTurnOf, partRequestOf };
}

// The checks of a request, with each region's part of their limits.

export interface PlacedCheck extends Placement {
  readonly check: RuleCheck;
  /** The split that the check was placed by. */
  readonly split: Split;
}

export interface Placing {
  /** With a single region, checks stay as they are. */
  place(checks: readonly RuleCheck[], regions: Regions, split: Split | undefined): readonly PlacedCheck[];
}

/** The configured `shares` apply to snapshots that predate regional splits. */
export function createPlacing(shares: SharesByRegion, now: () => number): Placing {
  const configured: Split = { shares, before: [] };
  const known = new WeakMap<Split, Placements>();
  const placementsOf = (split: Split): Placements => {
    const found = known.get(split) ?? createPlacements(split);
    known.set(split, found);
    return found;
  };
  return {
    place(checks, regions, split = configured) {
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
    },
  };
}

/** No rule is moving. */
const isSettled = (checks: readonly RuleCheck[], { before, moved }: Split) =>
  before.length === 0 && (!moved || checks.every(({ rule }) => !moved[rule.id]));

/**
 * Whether the rule is moving, so that old and new placement may both count: the rule itself has changed, or new shares
 * give a central rule another region.
 */
export const isBeingMoved = ({ check, split, at }: PlacedCheck): boolean =>
  (split.moved?.[check.rule.id]?.length ?? 0) > 0 || (at !== undefined && split.before.length > 0);

/** Whether a region can use the parts of others. */
export const isShared = ({ check, parts, at }: PlacedCheck): boolean =>
  parts.size > 1 && (at !== undefined || check.rule.spill);
