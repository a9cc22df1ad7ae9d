// The checks of a request, with each region's part of their limits.

import { eachAs } from '../core/each.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { SharesByRegion, Split } from '../core/matching/rule.ts';
import { createPlacements, type Placement, type Placements, wholeAt } from '../core/regions/placement.ts';
import type { Regions } from './region.ts';

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
        return eachAs(checks, (check) => {
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
