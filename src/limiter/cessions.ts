// What this isolate knows of parts that regions have ceded to one another, and how it asks for them. An idle region cedes
// its part of a counter to the region where the caller is, its home: docs/regions.md tells how, and why that is exact.
// Mostly after responses; a request asks only if it would otherwise be denied.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { hasShare } from '../core/regions/placement.ts';
import { capacityOf, hasBurst, isUsable, type Share, type Shares } from '../core/regions/shares.ts';
import { isShared, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

const MOST_COUNTERS = 10_000;
/** In flight at once, of one isolate. What is not asked now is asked after a later request. */
const MOST_ASKED = 20;
/** Nobody waits for it. */
const ASK_MS = 5_000;
/** A part is ceded for so many windows, within these bounds. */
const TERM_WINDOWS = 4;
const SHORTEST_TERM_MS = 30_000;
const LONGEST_TERM_MS = 600_000;
/** A home asks again when so much of the term is left. */
const RENEW_AT = 1 / 3;
/** By so much clocks may differ, and commands be late. */
const SLACK_MS = 5_000;

/** One region's part of a counter is another's, for a time. By the clock of this isolate. */
interface Cession {
  readonly from: string;
  readonly home: string;
  readonly usableUntilMs: number;
  readonly movedUntilMs: number;
}

/** A request of this isolate that was counted. */
export interface Use {
  readonly placed: PlacedCheck;
  /** Where; and by what, the last time. */
  readonly region: LimiterRegion;
  readonly counted: RuleCheck;
  readonly outcome: Outcome;
}

export interface Cessions {
  /** As that region counts it: with what it has, and what others have ceded to it. Undefined if it counts nothing of it. */
  checkAt(placed: PlacedCheck, region: string): RuleCheck | undefined;
  /** The regions that may count it, in the order in which they are asked. */
  candidates(placed: PlacedCheck, regions: Regions): readonly LimiterRegion[];
  /** Whether the home should have that other region's part, has not, and was not refused it lately. */
  isWanted(placed: PlacedCheck, home: string, from: LimiterRegion): boolean;
  /** Asks one region for its parts of some counters. */
  ask(from: LimiterRegion, home: string, placed: readonly PlacedCheck[], signal: AbortSignal): Promise<void>;
  /** All parts are ceded, and the time of their homes is over: the ms until one of them is counted again. */
  lockedMs(placed: PlacedCheck): number | undefined;
  /** A region has said that it has ceded the counter. */
  learn(placed: PlacedCheck, region: string, outcome: Outcome, askedAtMs: number, nowMs: number): void;
  /** After each request: asks for more where a subject uses a good part of what its region has, and renews. */
  follow(uses: readonly Use[], regions: Regions, afterResponse: AfterResponse): void;
}

export function createCessions(now: () => number): Cessions {
  const known = createBoundedCache<readonly Cession[]>(MOST_COUNTERS);
  /** Not to be asked again before that. */
  const asked = createBoundedCache<'asking' | 'refused'>(MOST_COUNTERS);
  const guests = createBoundedCache<number>(MOST_COUNTERS);
  let inFlight = 0;

  const cessionsOf = (check: RuleCheck): readonly Cession[] => known.get(nameOf(check), now()) ?? [];

  /** To whom that region has ceded it, if it has. */
  const movedFrom = (check: RuleCheck, region: string): Cession | undefined =>
    cessionsOf(check).find(({ from, movedUntilMs }) => from === region && movedUntilMs > now());

  const note = (check: RuleCheck, cession: Cession) => {
    const others = cessionsOf(check).filter(
      ({ from, movedUntilMs }) => from !== cession.from && movedUntilMs > now(),
    );
    const all = [...others, cession];
    known.set(nameOf(check), all, Math.max(...all.map(({ movedUntilMs }) => movedUntilMs)));
  };

  const checkAt: Cessions['checkAt'] = ({ check, parts, at }, region) => {
    if (at !== undefined && at !== region) return undefined;
    if (movedFrom(check, region)) return undefined;
    let part = parts.get(region);
    for (const cession of cessionsOf(check)) {
      const { from, home, usableUntilMs } = cession;
      const isUsableHere = home === region && usableUntilMs > now() && covers(cession, check, parts);
      const ceded = isUsableHere ? parts.get(from) : undefined;
      if (ceded) part = part ? together(part, ceded, hasBurst(check)) : ceded;
    }
    if (!part || !isUsable(check.cost > capacityOf(check) ? { ...check, cost: 1 } : check, part))
      return undefined;
    return { ...check, limit: part.limit, extra: part.extra, region };
  };

  const ask: Cessions['ask'] = async (from, home, placed, signal) => {
    const askedAtMs = now();
    for (const { check } of placed) asked.set(askName(from.name, check), 'asking', askedAtMs + ASK_MS);
    const checks = placed.map(({ check, parts }) => ({
      ...wholeOf(check),
      cession: { home, termMs: termMs(check), holdMs: holdMs(check, parts) },
    }));
    const { nowMs, outcomes } = await from.store.run({ operation: 'cede', checks }, signal).catch((error) => {
      for (const { check } of placed) asked.set(askName(from.name, check), 'refused', askedAtMs + ASK_MS);
      throw error;
    });
    from.distance.note(now() - askedAtMs);
    for (const [i, check] of checks.entries()) {
      const outcome = outcomes[i];
      if (!outcome) continue;
      const untilMs = askedAtMs + (outcome.allowed ? 0 : (outcome.retryAfterMs ?? 0));
      asked.set(askName(from.name, check), 'refused', untilMs);
      // From when it was asked: that is never later than what the other region means.
      if (outcome.allowed)
        note(check, {
          from: from.name,
          home,
          usableUntilMs: askedAtMs + check.cession.termMs,
          movedUntilMs: askedAtMs + outcome.resetAtMs - nowMs,
        });
    }
  };

  /** What fails is tried again after a later request. It says nothing of the breaker: nobody waits for it. */
  const later = (region: LimiterRegion, work: () => Promise<unknown>, afterResponse: AfterResponse) => {
    if (inFlight >= MOST_ASKED) return;
    inFlight += 1;
    const end = () => {
      inFlight -= 1;
    };
    afterResponse(work().catch(region.watch.note).finally(end));
  };

  const isWanted: Cessions['isWanted'] = (placed, home, from) => {
    const { check, parts, split } = placed;
    // A region that is being removed has no share, and gets no parts.
    const mayHave = isShared(placed) && (parts.has(home) || hasShare(check.rule, split, home));
    if (!mayHave || from.name === home || !parts.has(from.name)) return false;
    if (asked.get(askName(from.name, check), now()) === 'refused') return false;
    const cession = movedFrom(check, from.name);
    if (!cession) return true;
    const isEnding = cession.usableUntilMs - now() < termMs(check) * RENEW_AT;
    return cession.home === home && (isEnding || !covers(cession, check, parts));
  };

  /** A region that sends many to the home wants its part back. */
  const welcome = ({ placed, region }: Use, [own]: Regions, afterResponse: AfterResponse) => {
    const { check, parts } = placed;
    const count = (guests.get(nameOf(check), now()) ?? 0) + check.cost * own.census.count();
    guests.set(nameOf(check), count, now() + check.windowMs);
    const isMany = count >= (parts.get(own.name)?.limit ?? Number.POSITIVE_INFINITY);
    const name = `back ${askName(own.name, check)}`;
    if (!isMany || region === own || asked.get(name, now())) return;
    asked.set(name, 'asking', now() + termMs(check));
    const call = { operation: 'reclaim', checks: [wholeOf(check)] } as const;
    later(own, () => own.store.run(call, AbortSignal.timeout(ASK_MS)), afterResponse);
  };

  return {
    checkAt,
    isWanted,
    ask,

    candidates(placed, regions) {
      const cession = movedFrom(placed.check, regions[0].name);
      const home = cession && regions.find(({ name }) => name === cession.home);
      return home ? [home, ...regions.filter((region) => region !== home)] : regions;
    },

    lockedMs({ check, parts }) {
      const locked = [...parts.keys()].map((region) => movedFrom(check, region));
      const endsAtMs = Math.min(...locked.map((cession) => cession?.movedUntilMs ?? 0));
      return locked.length > 0 && endsAtMs > now() ? endsAtMs - now() : undefined;
    },

    learn({ check }, from, outcome, askedAtMs, nowMs) {
      const { movedTo: home, resetAtMs, retryAfterMs = 0 } = outcome;
      if (home === undefined) return;
      const usableUntilMs = askedAtMs + retryAfterMs;
      note(check, { from, home, usableUntilMs, movedUntilMs: askedAtMs + resetAtMs - nowMs });
    },

    follow(uses, regions, afterResponse) {
      const [own] = regions;
      const wishes: { readonly placed: PlacedCheck; readonly from: LimiterRegion; readonly home: string }[] =
        [];
      for (const use of uses) {
        const { placed } = use;
        const home = placed.at ?? own.name;
        if (!isShared(placed)) continue;
        if (movedFrom(placed.check, own.name)) welcome(use, regions, afterResponse);
        else if (isStrained(use, home))
          for (const from of regions)
            if (isWanted(placed, home, from) && !asked.get(askName(from.name, placed.check), now()))
              wishes.push({ placed, from, home });
      }
      for (const [from, ofRegion] of Map.groupBy(wishes, (wish) => wish.from))
        if (from.breaker.state(now()) === 'closed')
          for (const [home, some] of Map.groupBy(ofRegion, (wish) => wish.home))
            later(
              from,
              () => {
                const placed = some.map((wish) => wish.placed);
                return ask(from, home, placed, AbortSignal.timeout(ASK_MS));
              },
              afterResponse,
            );
    },
  };
}

/** Whether a region's own part will not do: half of it is used, by more than one request; or it has none. */
function isStrained({ placed, region, counted, outcome }: Use, home: string): boolean {
  const own = placed.parts.get(home);
  if (!own || region.name !== home || !outcome.allowed) return true;
  const { cost } = placed.check;
  const most = capacityOf({ ...counted, ...own });
  const used = capacityOf(counted) - outcome.remaining;
  return used * 2 >= most && (used > cost || most <= cost);
}

/** Of a counter, whatever its part. */
export const nameOf = ({ id, key }: RuleCheck) => `${id} ${key}`;
const askName = (region: string, check: RuleCheck) => `${region} ${nameOf(check)}`;

/** As it is named in calls that charge nothing. */
const wholeOf = (check: RuleCheck): RuleCheck => ({ ...check, ...check.full, region: undefined });

/** Where it is no burst, `extra` is the same in all regions. */
const together = (a: Share, b: Share, addsExtra: boolean): Share => ({
  limit: a.limit + b.limit,
  extra: addsExtra && a.extra !== undefined ? a.extra + (b.extra ?? 0) : a.extra,
});

export const termMs = ({ windowMs }: Pick<RuleCheck, 'windowMs'>): number =>
  Math.min(LONGEST_TERM_MS, Math.max(SHORTEST_TERM_MS, TERM_WINDOWS * windowMs));

/** What was ceded for rules that drain faster does not hold for those of now. */
const covers = ({ movedUntilMs, usableUntilMs }: Cession, check: RuleCheck, parts: Shares): boolean =>
  movedUntilMs - usableUntilMs >= holdMs(check, parts);

/** The longest time for which a charge can count: by the pace of the whole, or of the slowest of its parts. */
function holdMs(check: RuleCheck, parts: Shares): number {
  const { chargeLastsMs } = traitsOf(check.algorithm);
  const ways = [check.full, ...parts.values()].filter(({ limit }) => limit > 0);
  return Math.max(...ways.map((way) => chargeLastsMs({ ...check, ...way }))) + SLACK_MS;
}
