// The checks of a request, with what each region may use of their limits; and where each of them is counted.
import { createPlacements, type Placements } from '../core/placement.ts';
import type { RuleCheck } from '../core/plan.ts';
import { isCentral, type SharesByRegion, type Split } from '../core/rule.ts';
import type { Shares } from '../core/shares.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

export interface PlacedCheck {
  readonly check: RuleCheck;
  readonly parts: Shares;
}

export interface Placing {
  /** Where there is one region only, checks are as they were. */
  place(checks: readonly RuleCheck[], regions: Regions, split: Split | undefined): readonly PlacedCheck[];
}

/** `shares` as configured, for rules that were published before regions were known of. */
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
        return checks.map((check) => ({ check, parts: wholeAt(regions[0], check) }));
      const placements = placementsOf(split);
      const nowMs = now();
      return checks.flatMap((check) => placements.partsOf(check, nowMs).map((parts) => ({ check, parts })));
    },
  };
}

/** Nothing was placed in another way before. */
const isSettled = (checks: readonly RuleCheck[], { before }: Split) =>
  before.length === 0 && checks.every(({ rule }) => rule.placedBefore.length === 0);

const wholeAt = ({ name }: LimiterRegion, { limit, extra }: RuleCheck): Shares =>
  new Map([[name, { limit, extra }]]);

/** As that region counts it; undefined if it has no part of it. */
export function checkAt({ check, parts }: PlacedCheck, region: string): RuleCheck | undefined {
  const part = parts.get(region);
  return part && { ...check, limit: part.limit, extra: part.extra, region };
}

/** The nearest region that has a part of it. */
export const regionOf = (
  { parts }: PlacedCheck,
  regions: readonly LimiterRegion[],
): LimiterRegion | undefined => regions.find(({ name }) => parts.has(name));

/** Whether what one region has left can be used in another. */
export const canBorrow = ({ check, parts }: PlacedCheck): boolean =>
  parts.size > 1 && check.rule.spill && !isCentral(check.rule) && !check.log;
