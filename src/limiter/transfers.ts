// How regions ask one another for their parts. An idle region cedes its part of a counter to the region where the
// caller is (its home). docs/regions.md explains how, and why that is exact. Weir asks after responses. A request waits
// for the answer only if it would otherwise be denied.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { capacityOf, hasBurst } from '../core/counting/capacity.ts';
import type { Outcome } from '../core/counting/check.ts';
import { checkAt, type RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { isUsable, type Part, type Parts } from '../core/regions/parts.ts';
import { hasShare, holdMs, isMerged, termMs } from '../core/regions/placement.ts';
import type { Moment } from './memory.ts';
import { createMerging } from './merging.ts';
import { isShared, type PlacedCheck } from './next-region.ts';
import type { LimiterRegion, Regions } from './region-calls.ts';

// The cessions between regions that this isolate knows. Old or incomplete knowledge is safe: the script of a region
// that has ceded its part refuses to count and names the home.

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

/** Calls in flight at once, for each isolate. Beyond that, a later request asks. */
const MAX_ASKED = 20;
/** No request waits for this call, so it may take long. */
const ASK_MS = 5_000;
/** A home renews a cession when this part of the term is left. */
const RENEW_AT = 1 / 3;

/** A request of this isolate that was counted. */
export interface Use {
  readonly placed: PlacedCheck;
  /** The region that counted it, and the check and outcome of its last call. */
  readonly region: LimiterRegion;
  readonly counted: RuleCheck;
  readonly outcome: Outcome;
}

/** The home should get the part of `from`. */
export interface PartRequest {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  readonly home: string;
}

/** One region is asked for its parts of some counters. */
export interface Ask {
  readonly from: LimiterRegion;
  readonly home: string;
  readonly placed: readonly PlacedCheck[];
  /** Units that the home has charged itself with, in place of the other region's: see merging.ts. */
  readonly charged?: { readonly units: number; readonly atMs: number } | undefined;
}

export interface Cessions extends KnownCessions {
  /** Whether the home lacks the part of `from` and should ask for it: `from` has not refused lately. */
  isMissing(placed: PlacedCheck, home: string, from: LimiterRegion): boolean;
  ask(ask: Ask, signal: AbortSignal): Promise<readonly Outcome[]>;
  /** After each request: asks for parts where a subject uses much of its region's part, and renews cessions. */
  follow(uses: readonly Use[], regions: Regions, afterResponse: AfterResponse): void;
}

export function createCessions(now: () => number): Cessions {
  const known = createKnownCessions(now);
  /** Regions that must not be asked again yet. */
  const asked = createBoundedCache<'asking' | 'refused'>(MAX_COUNTERS);
  const guests = createBoundedCache<number>(MAX_COUNTERS);
  let inFlight = 0;

  /** Counts terms from the moment of asking. The other region starts later, so no term ends later here than there. */
  const ask: Cessions['ask'] = async ({ from, home, placed, charged }, signal) => {
    const askedAtMs = now();
    const note = (state: 'asking' | 'refused', { check }: PlacedCheck, ms: number) =>
      asked.set(askName(from.name, check), state, askedAtMs + ms);
    for (const one of placed) note('asking', one, ASK_MS);
    const checks = placed.map(({ check, parts }) => ({
      ...wholeOf(check),
      cession: { home, termMs: termMs(check), holdMs: holdMs(check, parts) },
      ...(charged && { want: charged.units, chargedAtMs: charged.atMs }),
    }));
    const { nowMs, outcomes } = await from.store.run({ operation: 'cede', checks }, signal).catch((error) => {
      for (const one of placed) note('refused', one, ASK_MS);
      throw error;
    });
    from.distance.note(now() - askedAtMs);
    for (const [i, one] of placed.entries()) {
      const { allowed = false, retryAfterMs = 0, resetAtMs = 0 } = outcomes[i] ?? {};
      const { check, parts } = one;
      // If the home may merge the parts, it need not wait until the other region is idle.
      const waitMs = isMerged(check, parts) ? Math.min(retryAfterMs, check.windowMs) : retryAfterMs;
      note('refused', one, allowed ? 0 : waitMs);
      const cededUntilMs = askedAtMs + resetAtMs - nowMs;
      const usableUntilMs = askedAtMs + termMs(check);
      if (allowed) known.note(check, { from: from.name, home, usableUntilMs, cededUntilMs });
    }
    return outcomes;
  };

  const isRefused = (from: string, check: RuleCheck) => asked.get(askName(from, check), now()) === 'refused';
  const merging = createMerging({ ask, isRefused, cessionFrom: known.cessionFrom });

  /**
   * Does the work after the response. If the work fails, a later request tries again. The breaker does not count the
   * failure, because no request waits for this call.
   */
  const later = (region: LimiterRegion, work: () => Promise<unknown>, afterResponse: AfterResponse) => {
    if (inFlight >= MAX_ASKED || region.breaker.state(now()) !== 'closed') return;
    inFlight += 1;
    const end = () => {
      inFlight -= 1;
    };
    afterResponse(work().catch(region.watch.note).finally(end));
  };

  /** Whether the home lacks the part, or has it for at most `ms` more. */
  const isLacking = ({ placed, home, from }: PartRequest, ms: number): boolean => {
    const { check, parts, split } = placed;
    // A region without a share is being removed. It gets no parts.
    const mayHave = isShared(placed) && (parts.has(home) || hasShare(check.rule, split, home));
    if (!mayHave || from.name === home || !parts.has(from.name)) return false;
    if (isRefused(from.name, check)) return false;
    const cession = known.cessionFrom(check, from.name);
    if (!cession) return true;
    return cession.home === home && (!covers(cession, check, parts) || cession.usableUntilMs - now() < ms);
  };

  /** A region that sends many guests to the home wants its part back, unless split parts would lose too much. */
  const welcome = ({ placed, region }: Use, [own]: Regions, afterResponse: AfterResponse) => {
    const { check, parts } = placed;
    const count = (guests.get(nameOf(check), now()) ?? 0) + check.cost * own.census.count();
    guests.set(nameOf(check), count, now() + check.windowMs);
    const isMany = count >= (parts.get(own.name)?.limit ?? Number.POSITIVE_INFINITY);
    const name = `back ${askName(own.name, check)}`;
    if (!isMany || region === own || isMerged(check, parts) || asked.get(name, now())) return;
    asked.set(name, 'asking', now() + termMs(check));
    const call = { operation: 'reclaim', checks: [wholeOf(check)] } as const;
    later(own, () => own.store.run(call, AbortSignal.timeout(ASK_MS)), afterResponse);
  };

  const partRequestsOf = (use: Use, moved: Cession | undefined, regions: Regions): PartRequest[] => {
    const { placed } = use;
    const [own] = regions;
    const home = placed.at ?? moved?.home ?? own.name;
    if (!isStrained(use, home)) return [];
    // Guests renew cessions for their home, because the home may have no requests of its own.
    const isWanted = (from: LimiterRegion) =>
      !moved || (from !== own && known.cessionFrom(placed.check, from.name) !== undefined);
    return regions
      .filter((from) => isWanted(from) && !asked.get(askName(from.name, placed.check), now()))
      .map((from) => ({ placed, from, home }))
      .filter((partRequest) => isLacking(partRequest, termMs(placed.check) * RENEW_AT));
  };

  const askAll = async (some: Ask, regions: Regions) => {
    const { from, home, placed } = some;
    const outcomes = await ask(some, AbortSignal.timeout(ASK_MS));
    // Guests renew cessions for their home, but only the home merges.
    if (regions[0].name !== home) return;
    for (const [i, outcome] of outcomes.entries())
      if (placed[i]) await merging.merge({ placed: placed[i], from, outcome, regions });
  };

  return {
    ...known,
    isMissing: (placed, home, from) => isLacking({ placed, home, from }, 0),
    ask,
    follow(uses, regions, afterResponse) {
      const partRequests: PartRequest[] = [];
      for (const use of uses) {
        if (!isShared(use.placed)) continue;
        const moved = known.cessionFrom(use.placed.check, regions[0].name);
        if (moved) welcome(use, regions, afterResponse);
        partRequests.push(...partRequestsOf(use, moved, regions));
      }
      if (partRequests.length > 0)
        for (const some of asksOf(partRequests)) later(some.from, () => askAll(some, regions), afterResponse);
    },
  };
}

/** One call for all counters that a home wants from a region. */
export const asksOf = (partRequests: readonly PartRequest[]): Ask[] =>
  [...Map.groupBy(partRequests, ({ from, home }) => `${from.name} ${home}`).values()].flatMap(
    ([first, ...others]) =>
      first ? [{ ...first, placed: [first, ...others].map(({ placed }) => placed) }] : [],
  );

/**
 * Whether the home's own part is too small: it has none, another region counted the request or the home denied it, or
 * half of the part is used. A single request that uses half does not count, unless the part holds only one.
 */
function isStrained({ placed, region, counted, outcome }: Use, home: string): boolean {
  const own = placed.parts.get(home);
  if (!own || region.name !== home || !outcome.allowed) return true;
  const { cost } = placed.check;
  const most = capacityOf({ algorithm: counted.algorithm, limit: own.limit, extra: own.extra });
  const used = capacityOf(counted) - outcome.remaining;
  return used * 2 >= most && (used > cost || most <= cost);
}

const askName = (region: string, check: RuleCheck) => `${region} ${nameOf(check)}`;
