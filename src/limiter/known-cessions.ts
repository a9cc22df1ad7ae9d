// The cessions between regions that this isolate knows. Old or incomplete knowledge is safe: the script of a region
// that has ceded its part refuses to count and names the home.
import { createBoundedCache } from '../core/bounded-cache.ts';
import { capacityOf, hasBurst } from '../core/counting/capacity.ts';
import type { Outcome } from '../core/counting/check.ts';
import { checkAt, type RuleCheck } from '../core/matching/plan.ts';
import { isUsable, type Part, type Parts } from '../core/regions/parts.ts';
import { holdMs } from '../core/regions/terms.ts';
import type { Moment } from './known-denials.ts';
import type { PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region.ts';

export const MAX_COUNTERS = 10_000;

/** One region has ceded its part of a counter to another. Times are by the clock of this isolate. */
export interface Cession {
  readonly from: string;
  readonly home: string;
  /** Until then, the home counts with this part. */
  readonly usableUntilMs: number;
  /** Until then, no region but the home counts with this part. */
  readonly cededUntilMs: number;
}

/** At the end of the term the isolate asks the region once more, because the home may have renewed. */
interface Known extends Cession {
  readonly knownUntilMs: number;
}

export interface KnownCessions {
  note(check: RuleCheck, cession: Cession): void;
  /** Notes that a region says it has ceded the counter. */
  learn(check: RuleCheck, from: string, outcome: Outcome, moment: Moment): void;
  /** The cession of that region's part, if it has ceded it. */
  cessionFrom(check: RuleCheck, region: string): Cession | undefined;
  /** Whether that region counts the check at all. */
  isCountedAt(placed: PlacedCheck, region: string): boolean;
  /** The check with the region's own part and the parts ceded to it. Undefined if the region does not count it. */
  checkAt(placed: PlacedCheck, region: string): RuleCheck | undefined;
  /** The regions that may count the check, in the order of asking. */
  candidates(placed: PlacedCheck, regions: Regions): readonly LimiterRegion[];
  /**
   * The region that should count the check: the only one that may, or the home that others name. If each region has a
   * part of its own, the first of them. All isolates have the same order of parts.
   */
  ownerOf(placed: PlacedCheck): string;
  /** If every region has ceded its part: the ms until the first of them counts again. */
  lockedMs(placed: PlacedCheck): number | undefined;
}

export function createKnownCessions(now: () => number): KnownCessions {
  const known = createBoundedCache<readonly Known[]>(MAX_COUNTERS);
  const cessionsOf = (check: RuleCheck): readonly Known[] =>
    (known.size > 0 ? known.get(nameOf(check), now()) : undefined) ?? NONE;
  const cessionFrom: KnownCessions['cessionFrom'] = (check, region) =>
    cessionsOf(check).find(({ from, knownUntilMs }) => from === region && knownUntilMs > now());

  const note: KnownCessions['note'] = (check, cession) => {
    const { from, usableUntilMs, cededUntilMs } = cession;
    const knownUntilMs = usableUntilMs > now() ? usableUntilMs : cededUntilMs;
    const others = cessionsOf(check).filter((one) => one.from !== from && one.knownUntilMs > now());
    const all = [...others, { ...cession, knownUntilMs }];
    known.set(nameOf(check), all, Math.max(...all.map((one) => one.knownUntilMs)));
  };

  /** The region's own part, and the parts of others that it may use. */
  const partAt = ({ check, parts }: PlacedCheck, region: string, cessions: readonly Cession[]) =>
    cessions
      .filter((one) => one.home === region && one.usableUntilMs > now() && covers(one, check, parts))
      .flatMap(({ from }) => parts.get(from) ?? [])
      .reduce<Part | undefined>(
        (part, ceded) => (part ? together(part, ceded, hasBurst(check)) : ceded),
        parts.get(region),
      );

  const usableAt = (placed: PlacedCheck, region: string): Part | undefined => {
    const { check, at, parts } = placed;
    if (at !== undefined && at !== region) return undefined;
    const cessions = cessionsOf(check);
    if (cessions.length > 0 && cessionFrom(check, region)) return undefined;
    const part = cessions.length > 0 ? partAt(placed, region, cessions) : parts.get(region);
    return part && isUsable(fitting(check), part) ? part : undefined;
  };

  return {
    note,
    cessionFrom,

    learn(check, from, { cededTo: home = '', resetAtMs, retryAfterMs = 0 }, { askedAtMs, answeredAtMs }) {
      const cededUntilMs = askedAtMs + resetAtMs - answeredAtMs;
      note(check, { from, home, usableUntilMs: askedAtMs + retryAfterMs, cededUntilMs });
    },

    isCountedAt: (placed, region) => usableAt(placed, region) !== undefined,

    checkAt(placed, region) {
      const part = usableAt(placed, region);
      return part && checkAt(region, placed.check, part);
    },

    candidates({ check }, regions) {
      const cession = cessionFrom(check, regions[0].name);
      const home = cession && regions.find(({ name }) => name === cession.home);
      return home ? [home, ...regions.filter((region) => region !== home)] : regions;
    },

    ownerOf({ check, at, parts }) {
      if (at !== undefined) return at;
      const [first = ''] = parts.keys();
      for (const region of parts.keys()) {
        const cession = cessionFrom(check, region);
        if (cession) return cession.home;
      }
      return first;
    },

    lockedMs({ check, parts }) {
      const locked = [...parts.keys()].map((region) => cessionFrom(check, region));
      const endsAtMs = Math.min(...locked.map((cession) => cession?.cededUntilMs ?? 0));
      return locked.length > 0 && endsAtMs > now() ? endsAtMs - now() : undefined;
    },
  };
}

const NONE: readonly Known[] = [];

/** A cost above the whole limit never fits, so any region can deny the check, however small its part is. */
const fitting = (check: RuleCheck): RuleCheck =>
  check.cost > capacityOf(check) ? { ...check, cost: 1 } : check;

/** The name of a counter, the same for all of its parts. */
export const nameOf = ({ id, key }: RuleCheck) => `${id} ${key}`;

/** The check with its whole limit, for code that does not care about parts. */
export const wholeOf = (check: RuleCheck): RuleCheck => ({ ...check, ...check.full, region: undefined });

/** If `extra` is no burst, it is the same in all regions. */
const together = (a: Part, b: Part, addsExtra: boolean): Part => ({
  limit: a.limit + b.limit,
  extra: addsExtra && a.extra !== undefined ? a.extra + (b.extra ?? 0) : a.extra,
});

/**
 * Whether the part stays locked long enough after the term for the home's charges to stop counting. It may not if the
 * rules drained faster when the part was ceded.
 */
export const covers = ({ cededUntilMs, usableUntilMs }: Cession, check: RuleCheck, parts: Parts): boolean =>
  cededUntilMs - usableUntilMs >= holdMs(check, parts);
