// Which region a check of a request turns to next: to be counted there, or for that region's part.
import { isUsable } from '../core/regions/shares.ts';
import type { Cessions } from './cessions.ts';
import { nameOf } from './known-cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import type { Pending, Turn, Wish } from './pending-check.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

export interface Turns {
  /** Where it is tried next; undefined if all that have a part have spoken. With an era, memory speaks for them. */
  turnOf(one: Pending, regions: Regions, era: string | undefined): Turn | undefined;
  /** Its home has denied it, or has no part: parts that idle regions cede are of more use than one charge there. */
  wishOf(one: Pending, regions: Regions): Wish | undefined;
  /** Whether another region than that one could count it. */
  hasOther(one: Pending, region: LimiterRegion, regions: Regions): boolean;
  isClosed(region: LimiterRegion): boolean;
}

export interface TurnsOptions {
  readonly now: () => number;
  readonly denials: KnownDenials;
  readonly cessions: Cessions;
}

export function createTurns({ now, denials, cessions }: TurnsOptions): Turns {
  const isClosed = ({ breaker }: LimiterRegion) => breaker.state(now()) === 'closed';

  return {
    isClosed,

    turnOf(one, regions, era) {
      const { placed, verdicts } = one;
      for (const region of cessions.candidates(placed, regions)) {
        const check = cessions.checkAt(placed, region.name);
        if (!check) continue;
        const verdict = verdicts.get(region.name);
        // It was denied with a smaller part than the region has by now.
        const hasMore = verdict?.outcome !== undefined && verdict.check.limit < check.limit;
        if (!verdict || hasMore) {
          const outcome = era === undefined ? undefined : denials.find(region.name, check, now(), era);
          if (!outcome) return { one, region, check };
          verdicts.set(region.name, { check, outcome });
        }
        if (verdicts.get(region.name)?.outcome && !placed.check.rule.spill) return undefined;
      }
      return undefined;
    },

    wishOf(one, regions) {
      const { placed, verdicts, asked } = one;
      const home = placed.at ?? regions[0].name;
      const part = placed.parts.get(home);
      const own = regions.find(({ name }) => name === home);
      const isDenied = verdicts.get(home)?.outcome !== undefined;
      // What is ceded to a region that does not answer is lost to all.
      const isThere = own?.distance.ms() !== undefined && isClosed(own);
      if (part && isUsable(placed.check, part) ? !isDenied : !isThere) return undefined;
      const region = regions.find(
        (from) => !asked.has(from.name) && isClosed(from) && cessions.isMissing(placed, home, from),
      );
      return region && { one, region, home };
    },

    hasOther: ({ placed, verdicts }, region, regions) =>
      regions.some(
        (other) =>
          other !== region &&
          !verdicts.has(other.name) &&
          isClosed(other) &&
          cessions.isCountedAt(placed, other.name),
      ),
  };
}

/** Where a rule is being moved, a request may be up against one counter in two ways: the stricter one is asked. */
export const strictest = (turns: readonly Turn[]): Turn[] =>
  turns.filter(({ check }, i) =>
    turns.every((other, j) => {
      if (i === j || nameOf(other.check) !== nameOf(check)) return true;
      return check.limit < other.check.limit || (check.limit === other.check.limit && i < j);
    }),
  );
