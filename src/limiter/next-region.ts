// Which region the isolate asks next about a check: to count it, to stand in for its owner, or for its part.
import type { RuleCheck } from '../core/matching/plan.ts';
import { isUsable } from '../core/regions/parts.ts';
import type { Cessions, PartRequest } from './cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import { type Pending, setVerdict, type Turn } from './pending-check.ts';
import type { LimiterRegion, Regions } from './region.ts';
import { standInOf } from './stand-in.ts';

export interface NextRegionOptions {
  readonly denials: KnownDenials;
  readonly cessions: Cessions;
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
  /** The region whose part the home of the check should get before the next region counts. */
  partRequestOf(one: Pending, regions: Regions): PartRequest | undefined;
}

export function createNextRegion({ now, denials, cessions, isClosed }: NextRegionOptions): NextRegion {
  const knownDenial = (region: LimiterRegion, check: RuleCheck, announcement: string | undefined) =>
    announcement !== undefined && denials.size > 0
      ? denials.find(region.name, check, now(), announcement)
      : undefined;

  const turnOf: NextRegion['turnOf'] = (one, regions, announcement) => {
    const { placed } = one;
    const near = cessions.checkAt(placed, regions[0].name);
    // The usual case: the nearest region counts the check, and no cession has to be looked up.
    for (const region of near ? regions : cessions.candidates(placed, regions)) {
      const check = region === regions[0] ? near : cessions.checkAt(placed, region.name);
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
      const turn = standInOf(one, regions, { cessions, isClosed });
      const known = turn && knownDenial(turn.region, turn.check, announcement);
      if (!turn || !known) return turn;
      setVerdict(one, turn.region.name, { check: turn.check, outcome: known });
    }
  };

  /** The home has denied the check or has no part. Parts of idle regions help more than a single charge elsewhere. */
  const partRequestOf: NextRegion['partRequestOf'] = ({ placed, verdicts }, regions) => {
    const home = placed.at ?? regions[0].name;
    const part = placed.parts.get(home);
    const hasPart = part !== undefined && isUsable(placed.check, part);
    if (hasPart && verdicts.get(home)?.outcome === undefined) return undefined;
    const own = regions.find(({ name }) => name === home);
    // No region could use a part that is ceded to a region that does not answer.
    if (!hasPart && !(own?.distance.ms() !== undefined && isClosed(own))) return undefined;
    const from = regions.find((region) => isClosed(region) && cessions.isMissing(placed, home, region));
    return from && { placed, from, home };
  };

  return { turnOf, standInTurnOf, partRequestOf };
}
