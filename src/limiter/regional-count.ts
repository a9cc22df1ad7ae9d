// Counts the checks of a request where they are to be counted: most of them in the nearest region, with one call. Checks
// that this region has ceded go to their home; checks that are denied are tried in the next region that has a part. All
// or nothing: what was charged is given back if the request is denied after all.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { CheckResult, DegradedReason } from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { catchUp } from './catch-up.ts';
import type { Cessions } from './cessions.ts';
import type { Deadline } from './deadline.ts';
import { nameOf } from './known-cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import type { LeaseBook } from './lease-book.ts';
import type { Ledger } from './ledger.ts';
import { denialOf, isDenied, type Pending, pendingOf, type Turn, useOf, type Wish } from './pending-check.ts';
import type { PlacedCheck } from './placed-checks.ts';
import { type Call, createRegionCalls } from './region-calls.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';
import { createHearReply, type Reply, type Tally } from './region-replies.ts';
import type { RegionAnnouncement } from './rules-in-force.ts';
import { createTurns, strictest } from './turns.ts';

export interface CountRequest {
  readonly placed: readonly PlacedCheck[];
  readonly regions: Regions;
  readonly operation: 'take' | 'peek';
  /** Ask the first region that answers what it announces, too. */
  readonly withAnnouncement: boolean;
  /** What it must announce: if it is something else, no further region is asked, because the rules are outdated. */
  readonly expected?: string | undefined;
  readonly deadline: Deadline;
  readonly afterResponse: AfterResponse;
  /** Of the request: what regions charge, or may have charged, is noted there. */
  readonly ledger: Ledger;
  /** See known-denials.ts. */
  readonly era: string;
}

export interface Counted {
  readonly results: readonly CheckResult<RuleCheck>[];
  /** Those that answered. */
  readonly regions: readonly LimiterRegion[];
  /** What no region has counted that should have. */
  readonly missing: readonly RuleCheck[];
  /** The first one, if any region has failed. */
  readonly failure: DegradedReason | undefined;
  /** What the regions announce that were asked. */
  readonly heard: readonly RegionAnnouncement[];
  /** The rules are outdated, and not all has been counted that should have been. */
  readonly isStopped: boolean;
}

/** No region was asked. */
export const FROM_MEMORY: Counted = {
  results: [],
  regions: [],
  missing: [],
  failure: undefined,
  heard: [],
  isStopped: false,
};

export interface RegionalCount {
  count(request: CountRequest): Promise<Counted>;
  /** What memory alone tells: the results of a denial; undefined if a region must be asked. */
  recall(request: Pick<CountRequest, 'placed' | 'regions' | 'era'>): CheckResult<RuleCheck>[] | undefined;
  /** Gives back all that the request was charged. A caller that these charges deny may then pass sooner than told. */
  undo(ledger: Ledger): Promise<void>;
}

export interface RegionalCountOptions {
  readonly now: () => number;
  readonly denials: KnownDenials;
  readonly cessions: Cessions;
  readonly leases: LeaseBook;
}

const UNSETTLED_MS = 5_000;
const MAX_UNSETTLED = 10_000;
/** Each region may be asked for its part, and to count twice: a home may have got more meanwhile. */
const roundsFor = (regions: Regions) => 3 * regions.length + 1;

/** Calls that are made at once. */
interface Step {
  readonly turns: readonly Turn[];
  readonly wishes: readonly Wish[];
}

export function createRegionalCount(options: RegionalCountOptions): RegionalCount {
  const { now, denials, cessions, leases } = options;
  const next = createTurns({ now, denials, cessions });
  const calls = createRegionCalls({ now, cessions, leases, turns: next });
  const unsettled = createBoundedCache<true>(MAX_UNSETTLED);

  const isUnsettled = (check: RuleCheck) => unsettled.get(nameOf(check), now()) === true;
  const hear = createHearReply({ cessions, denials, leases, isUnsettled });

  const undo: RegionalCount['undo'] = (ledger) => {
    for (const { check } of ledger.charges) unsettled.set(nameOf(check), true, now() + UNSETTLED_MS);
    return ledger.undo();
  };

  /** Undefined if nothing is left to ask, or if a check is denied that cannot be tried anywhere else. */
  const stepOf = (
    { pending }: Tally,
    { placed, regions, operation, era }: CountRequest,
  ): Step | undefined => {
    const open = pending.filter(({ admitted }) => !admitted);
    const wishes = operation === 'take' ? open.flatMap((one) => next.wishOf(one, regions) ?? []) : [];
    const others = open.filter((one) => !wishes.some((wish) => wish.one === one));
    const memory = operation === 'take' && !placed.some(isTold) ? era : undefined;
    const turns = others.flatMap((one) => next.turnOf(one, regions, memory) ?? []);
    const isOver = others.some((one) => isDenied(one) && !turns.some((turn) => turn.one === one));
    return turns.length + wishes.length === 0 || isOver ? undefined : { turns, wishes };
  };

  const take = async ({ turns, wishes }: Step, call: Call) => {
    const { request } = call;
    const asking = [...Map.groupBy(wishes, ({ region, home }) => `${region.name} ${home}`).values()].map(
      ([first, ...others]) => first && calls.askFor([first, ...others], request),
    );
    const replies = await Promise.all(
      [...Map.groupBy(turns, ({ region }) => region)].map(async ([region, all], i): Promise<Reply> => {
        const asked = strictest(all);
        const withAnnouncement = call.withAnnouncement && i === 0;
        const answer = await calls.count(region, asked, { ...call, withAnnouncement });
        return { region, turns: all, asked, answer };
      }),
    );
    await Promise.all(asking);
    return replies;
  };

  /** Most requests begin, and end, with one call to the nearest region. Undefined if it cannot count all of the checks. */
  const openingOf = (pending: readonly Pending[], request: CountRequest): Turn[] | undefined => {
    const { regions, era, operation } = request;
    const [region] = regions;
    const turns: Turn[] = [];
    for (const one of pending) {
      const { placed } = one;
      const check = cessions.checkAt(placed, region.name);
      const isTwin = turns.at(-1)?.one.placed.check === placed.check;
      if (!check || isTwin) return undefined;
      if (operation === 'take' && denials.find(region.name, check, now(), era)) return undefined;
      turns.push({ one, region, check });
    }
    return turns;
  };

  const askAll = async (request: CountRequest): Promise<Tally> => {
    const pending = request.placed.map(pendingOf);
    const tally: Tally = {
      pending,
      heard: [],
      answered: new Set(),
      failure: undefined,
      isStopped: false,
    };
    let { withAnnouncement } = request;
    let round = 0;
    const opening = openingOf(pending, request);
    if (opening) {
      const [region] = request.regions;
      const answer = await calls.count(region, opening, { request, round, withAnnouncement });
      hear({ region, turns: opening, asked: opening, answer }, tally, request);
      if (pending.every(isAdmitted)) return tally;
      withAnnouncement &&= answer.kind !== 'answered';
      round += 1;
    }
    for (; round < roundsFor(request.regions); round += 1) {
      const step = stepOf(tally, request);
      tally.isStopped = step !== undefined && tally.heard.some((one) => isOutdated(one, request.expected));
      if (!step || tally.isStopped) break;
      const replies = await take(step, { request, withAnnouncement, round });
      withAnnouncement &&= replies[0]?.answer.kind !== 'answered';
      for (const reply of replies) hear(reply, tally, request);
    }
    return tally;
  };

  /** With no region out of reach, what nobody may count now is denied: to let it pass could exceed the limit. */
  const denyLocked = ({ placed, admitted, verdicts }: Pending) => {
    const waitMs = admitted || verdicts.size > 0 ? undefined : cessions.lockedMs(placed);
    if (waitMs === undefined) return;
    const end = { resetAtMs: now() + waitMs, retryAfterMs: waitMs, nowMs: now() };
    const outcome = { allowed: false, remaining: 0, granted: 0, delayMs: 0, ...end };
    verdicts.set('', { check: placed.check, outcome });
  };

  /** What should have been counted and was not, as the nearest region that can counts it. */
  const missedOf = (one: Pending, isRefusal: boolean, regions: Regions): RuleCheck[] => {
    const { placed, admitted, verdicts } = one;
    if (admitted || denialOf(one) || (isRefusal && verdicts.size === 0)) return [];
    const at = regions.flatMap(({ name }) => cessions.checkAt(placed, name) ?? []);
    return [at[0] ?? placed.check];
  };

  /** All is admitted, without anything in the way: all that is left to do is to ask for more where that will be needed. */
  const plain = (
    { pending, answered, failure, heard }: Tally,
    { operation, regions, afterResponse }: CountRequest,
  ): Counted => {
    if (operation === 'take') followUses(pending, regions, afterResponse);
    const results = pending.flatMap(({ admitted }) => admitted?.result ?? []);
    return { results, regions: [...answered], missing: [], failure, heard, isStopped: false };
  };

  const followUses = (pending: readonly Pending[], regions: Regions, afterResponse: AfterResponse) => {
    // With one region there is nobody to ask.
    if (regions.length === 1) return;
    catchUp(pending, afterResponse, now());
    const uses = pending.flatMap((one) => useOf(one, regions));
    if (uses.some((use) => cessions.isWorthFollowing(use, regions)))
      cessions.follow(uses, regions, afterResponse);
  };

  const count = async (request: CountRequest): Promise<Counted> => {
    const { regions, operation, afterResponse, ledger } = request;
    const tally = await askAll(request);
    const { pending, failure, isStopped, heard } = tally;
    if (pending.every(isAdmitted)) return plain(tally, request);
    if (failure === undefined && !isStopped && regions.every(next.isClosed)) pending.forEach(denyLocked);
    const isRefusal = pending.some(isDenied);
    if (isRefusal && !ledger.isEmpty) afterResponse(undo(ledger));
    if (operation === 'take' && !isStopped) followUses(pending, regions, afterResponse);
    const seenOf = ({ seen }: Pending) => (isRefusal && seen) || [];
    return {
      results: pending.flatMap((one) => one.admitted?.result ?? denialOf(one) ?? seenOf(one)),
      regions: [...tally.answered],
      missing: isStopped ? [] : pending.flatMap((one) => missedOf(one, isRefusal, regions)),
      failure,
      heard,
      isStopped,
    };
  };

  return {
    count,
    undo,
    recall({ placed, regions, era }) {
      if (denials.size === 0 || placed.some(({ check }) => check.countDenied)) return undefined;
      const all = placed.map(pendingOf);
      const known = all.filter((one) => next.turnOf(one, regions, era) === undefined && isDenied(one));
      // Whether it would block from now on, only Redis can tell.
      const isOpen = all.some((one) => one.placed.check.blockMs && !known.includes(one));
      return known.length > 0 && !isOpen ? known.flatMap((one) => denialOf(one) ?? []) : undefined;
    },
  };
}

const isAdmitted = ({ admitted }: Pending): boolean => admitted !== undefined;

const isOutdated = ({ announced }: RegionAnnouncement, expected: string | undefined): boolean =>
  expected !== undefined && announced !== null && announced !== expected;

/** Its counter must hear of every request, also of those that are denied. */
const isTold = ({ check }: PlacedCheck): boolean => check.countDenied === true || check.blockMs !== undefined;
