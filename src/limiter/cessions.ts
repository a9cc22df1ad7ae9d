// How regions ask one another for their parts. An idle region cedes its part of a counter to the region where the caller
// is, its home: docs/regions.md tells how, and why that is exact. Mostly after responses; a request asks only if it would
// otherwise be denied.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { hasShare } from '../core/regions/placement.ts';
import { capacityOf } from '../core/regions/shares.ts';
import { holdMs, isMerged, termMs } from '../core/regions/terms.ts';
import {
  covers,
  createKnownCessions,
  type KnownCessions,
  MAX_COUNTERS,
  nameOf,
  wholeOf,
} from './known-cessions.ts';
import { createMerging } from './merging.ts';
import { isShared, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

/** In flight at once, of one isolate. What is not asked now is asked after a later request. */
const MAX_ASKED = 20;
/** Nobody waits for it. */
const ASK_MS = 5_000;
/** A home asks again when so much of the term is left. */
const RENEW_AT = 1 / 3;

/** A request of this isolate that was counted. */
export interface Use {
  readonly placed: PlacedCheck;
  /** Where; and by what, the last time. */
  readonly region: LimiterRegion;
  readonly counted: RuleCheck;
  readonly outcome: Outcome;
}

/** One region is asked for its parts of some counters. */
export interface Ask {
  readonly from: LimiterRegion;
  readonly home: string;
  readonly placed: readonly PlacedCheck[];
  /** What the home has charged itself with for what the other region holds: see merging.ts. */
  readonly charged?: { readonly units: number; readonly atMs: number } | undefined;
}

export interface Cessions extends Omit<KnownCessions, 'note' | 'movedFrom'> {
  /** Whether the home should have that other region's part, has not, and was not refused it lately. */
  isMissing(placed: PlacedCheck, home: string, from: LimiterRegion): boolean;
  ask(ask: Ask, signal: AbortSignal): Promise<readonly Outcome[]>;
  /** Whether there is anything to do after such a use: mostly not. */
  isWorthFollowing(use: Use, regions: Regions): boolean;
  /** After each request: asks for more where a subject uses a good part of what its region has, and renews. */
  follow(uses: readonly Use[], regions: Regions, afterResponse: AfterResponse): void;
}

export function createCessions(now: () => number): Cessions {
  const known = createKnownCessions(now);
  /** Not to be asked again before that. */
  const asked = createBoundedCache<'asking' | 'refused'>(MAX_COUNTERS);
  const guests = createBoundedCache<number>(MAX_COUNTERS);
  let inFlight = 0;

  const refuse = (from: string, check: RuleCheck, untilMs: number) =>
    asked.set(askName(from, check), 'refused', untilMs);

  /** Times are from when it was asked: that is never later than what the other region means. */
  const ask: Cessions['ask'] = async ({ from, home, placed, charged }, signal) => {
    const askedAtMs = now();
    for (const { check } of placed) asked.set(askName(from.name, check), 'asking', askedAtMs + ASK_MS);
    const checks = placed.map(({ check, parts }) => ({
      ...wholeOf(check),
      cession: { home, termMs: termMs(check), holdMs: holdMs(check, parts) },
      ...(charged && { want: charged.units, chargedAtMs: charged.atMs }),
    }));
    const { nowMs, outcomes } = await from.store.run({ operation: 'cede', checks }, signal).catch((error) => {
      for (const { check } of placed) refuse(from.name, check, askedAtMs + ASK_MS);
      throw error;
    });
    from.distance.note(now() - askedAtMs);
    for (const [i, { allowed, retryAfterMs = 0, resetAtMs }] of outcomes.entries()) {
      const check = checks[i];
      if (!check) continue;
      const { parts } = placed[i] as PlacedCheck;
      // A region that may merge them does not wait until the other is idle.
      const waitMs = isMerged(check, parts) ? Math.min(retryAfterMs, check.windowMs) : retryAfterMs;
      refuse(from.name, check, askedAtMs + (allowed ? 0 : waitMs));
      const usableUntilMs = askedAtMs + check.cession.termMs;
      const movedUntilMs = askedAtMs + resetAtMs - nowMs;
      if (allowed) known.note(check, { from: from.name, home, usableUntilMs, movedUntilMs });
    }
    return outcomes;
  };

  const merging = createMerging({ now, ask });

  /** What fails is tried again after a later request. It says nothing of the breaker: nobody waits for it. */
  const later = (region: LimiterRegion, work: () => Promise<unknown>, afterResponse: AfterResponse) => {
    if (inFlight >= MAX_ASKED) return;
    inFlight += 1;
    const end = () => {
      inFlight -= 1;
    };
    afterResponse(work().catch(region.watch.note).finally(end));
  };

  const mayAsk = (placed: PlacedCheck, home: string, from: LimiterRegion): boolean => {
    const { check, parts, split } = placed;
    // A region that is being removed has no share, and gets no parts.
    const mayHave = isShared(placed) && (parts.has(home) || hasShare(check.rule, split, home));
    if (!mayHave || from.name === home || !parts.has(from.name)) return false;
    return asked.get(askName(from.name, check), now()) !== 'refused';
  };

  const isMissing: Cessions['isMissing'] = (placed, home, from) => {
    const { check, parts } = placed;
    if (!mayAsk(placed, home, from)) return false;
    const cession = known.movedFrom(check, from.name);
    return !cession || (cession.home === home && !covers(cession, check, parts));
  };

  const isEnding = (placed: PlacedCheck, home: string, from: LimiterRegion): boolean => {
    const cession = known.movedFrom(placed.check, from.name);
    if (cession?.home !== home || !mayAsk(placed, home, from)) return false;
    return cession.usableUntilMs - now() < termMs(placed.check) * RENEW_AT;
  };

  /** A region that sends many to the home wants its part back; but not where parts side by side lose too much. */
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

  /** Guests renew for their home what other regions have ceded to it: it may have no requests of its own. */
  const wishesOf = (use: Use, regions: Regions): Wish[] => {
    const { placed } = use;
    const [own] = regions;
    const moved = known.movedFrom(placed.check, own.name);
    const home = placed.at ?? moved?.home ?? own.name;
    if (!isStrained(use, home)) return [];
    return regions
      .filter((from) => from !== own || !moved)
      .filter((from) => !moved || known.movedFrom(placed.check, from.name))
      .filter((from) => !asked.get(askName(from.name, placed.check), now()))
      .filter((from) => isMissing(placed, home, from) || isEnding(placed, home, from))
      .map((from) => ({ placed, from, home }));
  };

  const askAll = async (from: LimiterRegion, home: string, wishes: readonly Wish[], regions: Regions) => {
    const placed = wishes.map((wish) => wish.placed);
    const outcomes = await ask({ from, home, placed }, AbortSignal.timeout(ASK_MS));
    // Guests leave it to their home.
    if (regions[0].name !== home) return;
    for (const [i, outcome] of outcomes.entries())
      if (placed[i]) await merging.merge({ placed: placed[i], from, outcome, regions });
  };

  const { note: _note, movedFrom, ...told } = known;
  return {
    ...told,
    isMissing,
    ask,
    isWorthFollowing(use, [own]) {
      const { placed } = use;
      if (!isShared(placed)) return false;
      const moved = movedFrom(placed.check, own.name);
      return moved !== undefined || isStrained(use, placed.at ?? own.name);
    },
    follow(uses, regions, afterResponse) {
      const wishes: Wish[] = [];
      for (const use of uses) {
        if (!isShared(use.placed)) continue;
        if (movedFrom(use.placed.check, regions[0].name)) welcome(use, regions, afterResponse);
        wishes.push(...wishesOf(use, regions));
      }
      for (const [from, ofRegion] of Map.groupBy(wishes, (wish) => wish.from))
        if (from.breaker.state(now()) === 'closed')
          for (const [home, some] of Map.groupBy(ofRegion, (wish) => wish.home))
            later(from, () => askAll(from, home, some, regions), afterResponse);
    },
  };
}

interface Wish {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  readonly home: string;
}

/** Whether a region's own part will not do: half of it is used, by more than one request; or it has none. */
function isStrained({ placed, region, counted, outcome }: Use, home: string): boolean {
  const own = placed.parts.get(home);
  if (!own || region.name !== home || !outcome.allowed) return true;
  const { cost } = placed.check;
  const most = capacityOf({ algorithm: counted.algorithm, limit: own.limit, extra: own.extra });
  const used = capacityOf(counted) - outcome.remaining;
  return used * 2 >= most && (used > cost || most <= cost);
}

const askName = (region: string, check: RuleCheck) => `${region} ${nameOf(check)}`;
