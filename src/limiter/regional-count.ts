// Counts the checks of a request where they are to be counted: most of them in the nearest region, with one call. Checks
// that this region has ceded go to their home; checks that are denied are tried in the next region that has a part. All
// or nothing: what was charged is given back if the request is denied after all.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { CheckResult } from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { isUsable } from '../core/regions/shares.ts';
import { catchUp } from './catch-up.ts';
import { type Ask, asksOf, type Cessions, type Wish } from './cessions.ts';
import type { Deadline } from './deadline.ts';
import { nameOf } from './known-cessions.ts';
import type { KnownDenials } from './known-denials.ts';
import type { LeaseBook } from './lease-book.ts';
import type { Ledger } from './ledger.ts';
import { denialOf, isDenied, type Pending, pendingOf, type Turn, useOf } from './pending-check.ts';
import type { PlacedCheck } from './placed-checks.ts';
import { createRegionCalls, type Tally } from './region-calls.ts';
import { askRegion, type LimiterRegion, type Regions } from './region-ladder.ts';
import type { RegionAnnouncement } from './rules-in-force.ts';

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

export interface Counted extends Pick<Tally, 'failure' | 'heard'> {
  readonly results: readonly CheckResult<RuleCheck>[];
  /** Those that answered. */
  readonly regions: readonly LimiterRegion[];
  /** What no region has counted that should have. */
  readonly missing: readonly RuleCheck[];
  /** The rules are outdated, and not all has been counted that should have been. */
  readonly isStopped: boolean;
}

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
  const { now, denials, cessions } = options;
  const unsettled = createBoundedCache<true>(MAX_UNSETTLED);
  const isUnsettled = (check: RuleCheck) => unsettled.get(nameOf(check), now()) === true;
  const askToCount = createRegionCalls({ ...options, isUnsettled });
  const isClosed = ({ breaker }: LimiterRegion) => breaker.state(now()) === 'closed';

  const undo: RegionalCount['undo'] = (ledger) => {
    for (const { check } of ledger.charges) unsettled.set(nameOf(check), true, now() + UNSETTLED_MS);
    return ledger.undo();
  };

  /** Where it is tried next; undefined if all that have a part have spoken. With an era, memory speaks for them. */
  const turnOf = (one: Pending, regions: Regions, era: string | undefined): Turn | undefined => {
    const { placed, verdicts } = one;
    const near = cessions.checkAt(placed, regions[0].name);
    // Mostly the nearest region counts it, and nobody has to look up where it was ceded to.
    for (const region of near ? regions : cessions.candidates(placed, regions)) {
      const check = region === regions[0] ? near : cessions.checkAt(placed, region.name);
      if (!check) continue;
      const verdict = verdicts.get(region.name);
      // It was denied with a smaller part than the region has by now.
      const hasMore = verdict?.outcome !== undefined && verdict.check.limit < check.limit;
      if (!verdict || hasMore) {
        const outcome = era === undefined ? undefined : denials.find(region.name, check, now(), era);
        if (!outcome) return { region, check, ones: [one] };
        verdicts.set(region.name, { check, outcome });
      }
      if (verdicts.get(region.name)?.outcome && !placed.check.rule.spill) return undefined;
    }
    return undefined;
  };

  /** Its home has denied it, or has no part: parts that idle regions cede are of more use than one charge there. */
  const wishOf = ({ placed, verdicts }: Pending, regions: Regions): Wish | undefined => {
    const home = placed.at ?? regions[0].name;
    const part = placed.parts.get(home);
    const hasPart = part !== undefined && isUsable(placed.check, part);
    if (hasPart && verdicts.get(home)?.outcome === undefined) return undefined;
    const own = regions.find(({ name }) => name === home);
    // What is ceded to a region that does not answer is lost to all.
    if (!hasPart && !(own?.distance.ms() !== undefined && isClosed(own))) return undefined;
    const from = regions.find((region) => isClosed(region) && cessions.isMissing(placed, home, region));
    return from && { placed, from, home };
  };

  /** Undefined if nothing is left to ask, or if a check is denied that cannot be tried anywhere else. */
  const stepOf = (pending: readonly Pending[], request: CountRequest): Step | undefined => {
    const { placed, regions, operation, era } = request;
    const memory = operation === 'take' && !placed.some(isTold) ? era : undefined;
    const wishes: Wish[] = [];
    const turns: Turn[] = [];
    let isOver = false;
    for (const one of pending) {
      if (one.admitted) continue;
      const wish = operation === 'take' ? wishOf(one, regions) : undefined;
      const turn = wish ? undefined : turnOf(one, regions, memory);
      if (wish) wishes.push(wish);
      else if (turn) addTurn(turns, turn);
      else isOver ||= isDenied(one);
    }
    return turns.length + wishes.length === 0 || isOver ? undefined : { turns, wishes };
  };

  /** If that fails, the region is asked to count. */
  const askForParts = (some: Ask, { deadline }: CountRequest) => {
    const { from } = some;
    const signal = AbortSignal.timeout(Math.ceil(from.distance.fitMs(deadline.remainingMs(), true)));
    return askRegion({ region: from, isFair: true, now, ask: () => cessions.ask(some, signal) });
  };

  const take = ({ turns, wishes }: Step, tally: Tally, request: CountRequest): Promise<unknown> => {
    // Most requests begin, and end, with one call to the nearest region.
    const [first] = turns;
    if (first && wishes.length === 0 && turns.every(({ region }) => region === first.region))
      return askToCount(first.region, turns, tally, request);
    return Promise.all([
      ...asksOf(wishes).map((some) => askForParts(some, request)),
      ...[...Map.groupBy(turns, ({ region }) => region)].map(([region, some]) =>
        askToCount(region, some, tally, request),
      ),
    ]);
  };

  /** True if the rules are outdated: then no further region is asked. */
  const askAll = async (tally: Tally, request: CountRequest): Promise<boolean> => {
    for (; tally.round < roundsFor(request.regions); tally.round += 1) {
      const step = stepOf(tally.pending, request);
      if (!step) return false;
      if (tally.heard.some((one) => isOutdated(one, request.expected))) return true;
      await take(step, tally, request);
      if (tally.pending.every(isAdmitted)) return false;
    }
    return false;
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

  const followUses = (pending: readonly Pending[], { regions, afterResponse }: CountRequest) => {
    // With one region there is nobody to ask.
    if (regions.length === 1) return;
    catchUp(pending, afterResponse, now());
    const uses = pending.map((one) => useOf(one, regions)).filter((use) => use !== undefined);
    cessions.follow(uses, regions, afterResponse);
  };

  const count = async (request: CountRequest): Promise<Counted> => {
    const { regions, operation, withAnnouncement, afterResponse, ledger } = request;
    const pending = request.placed.map(pendingOf);
    const tally: Tally = {
      pending,
      heard: [],
      answered: new Set(),
      failure: undefined,
      asksAnnouncement: withAnnouncement,
      round: 0,
    };
    const isStopped = await askAll(tally, request);
    const { failure, heard } = tally;
    const isAll = pending.every(isAdmitted);
    if (!isAll && failure === undefined && !isStopped && regions.every(isClosed)) pending.forEach(denyLocked);
    const isRefusal = !isAll && pending.some(isDenied);
    if (isRefusal && !ledger.isEmpty) afterResponse(undo(ledger));
    if (operation === 'take' && !isStopped) followUses(pending, request);
    const seenOf = ({ seen }: Pending) => (isRefusal && seen) || [];
    return {
      results: pending.flatMap((one) => one.admitted?.result ?? denialOf(one) ?? seenOf(one)),
      regions: [...tally.answered],
      missing: isAll || isStopped ? [] : pending.flatMap((one) => missedOf(one, isRefusal, regions)),
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
      const known = all.filter((one) => turnOf(one, regions, era) === undefined && isDenied(one));
      // Whether it would block from now on, only Redis can tell.
      const isOpen = all.some((one) => one.placed.check.blockMs && !known.includes(one));
      return known.length > 0 && !isOpen ? known.flatMap((one) => denialOf(one) ?? []) : undefined;
    },
  };
}

/** Of two ways to count one check, the stricter one is asked. */
function addTurn(turns: Turn[], turn: Turn): void {
  const { check } = turn.ones[0].placed;
  const at = turns.findIndex(({ region, ones }) => region === turn.region && ones[0].placed.check === check);
  const twin = turns[at];
  if (!twin) turns.push(turn);
  else {
    const stricter = turn.check.limit < twin.check.limit ? turn : twin;
    turns[at] = { ...stricter, ones: [...twin.ones, ...turn.ones] };
  }
}

const isAdmitted = ({ admitted }: Pending): boolean => admitted !== undefined;

const isOutdated = ({ announced }: RegionAnnouncement, expected: string | undefined): boolean =>
  expected !== undefined && announced !== null && announced !== expected;

/** Its counter must hear of every request, also of those that are denied. */
const isTold = ({ check }: PlacedCheck): boolean => check.countDenied === true || check.blockMs !== undefined;
