// Counts the checks of a request, mostly with one call to the nearest region. A check that this region has transferred goes
// to its owner. A denied check is tried in the next region that has a part. If the region that should count a check does
// not answer, another one stands in for it. If the request is denied after all, its charges are given back: all or
// nothing.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { capacityOf, drainMs, hasBurst } from '../core/counting/capacity.ts';
import { type Answer, type Outcome, outcomeWith } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import { mapStable } from '../core/map-stable.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import { type Deadline, keepAlive, mayBeDropped } from './deadline.ts';
import type { LeaseBook } from './leases.ts';
import type { Ledger } from './ledger.ts';
import type { DecisionRequest } from './limiter.ts';
import type { KnownDenials } from './memory.ts';
import { catchUp } from './merging.ts';
import { createNextRegion, isShared, type PlacedCheck } from './next-region.ts';
import {
  askRegion,
  createRegionCalls,
  type LimiterRegion,
  type Regions,
  type Tally,
} from './region-calls.ts';
import { isOutdated } from './rules-in-force.ts';
import {
  asksOf,
  nameOf,
  type TransferCall,
  type TransferRequest,
  type Transfers,
  type Use,
} from './transfers.ts';

// One check of a request while the isolate asks regions: the answer of each region, and the result.

/** The answer of a region (or of memory in its place) to a check. No outcome if the region has not answered. */
export interface Verdict {
  readonly check: RuleCheck;
  readonly outcome?: Outcome | undefined;
  /** The region did not get the time that an answer takes. That it has not answered says nothing about it. */
  readonly isTooLate?: boolean | undefined;
}

/** A check that is not decided yet. */
export interface Pending {
  readonly placed: PlacedCheck;
  /** The verdicts of regions that have not admitted the check: see `setVerdict`. */
  verdicts: ReadonlyMap<string, Verdict>;
  /** The answer of the region that has admitted the check. */
  admitted: Admitted | undefined;
  /** The region would have admitted this check, but another check was denied. */
  seen: CheckResult<RuleCheck> | undefined;
}

export interface Admitted {
  readonly region: LimiterRegion;
  readonly result: CheckResult<RuleCheck>;
  /** The outcome for the region's part; `result` has the one for the whole limit. */
  readonly outcome: Outcome;
}

/** One check that the isolate asks one region to count. */
export interface Turn {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** Mostly one. While a rule moves, a request may have two checks of the same counter. The region charges it once. */
  readonly ones: [Pending, ...Pending[]];
}

/** Adds a turn. If a moving rule has two placements in this region, the isolate sends only the stricter one. */
export function withTurn(turns: readonly Turn[], turn: Turn): readonly Turn[] {
  if (turns.length === 0) return [turn];
  const { check } = turn.ones[0].placed;
  const isTwin = (one: Turn) => one.region === turn.region && one.check.id === turn.check.id;
  const at = turns.findIndex((one) => isTwin(one) && one.ones[0].placed.check === check);
  const twin = turns[at];
  if (!twin) return [...turns, turn];
  const stricter = turn.check.limit < twin.check.limit ? turn : twin;
  return turns.with(at, { ...stricter, ones: [...twin.ones, ...turn.ones] });
}

/** The region of all these turns; undefined if there are several. */
export function onlyRegionOf(turns: readonly Turn[]): LimiterRegion | undefined {
  const [first] = turns;
  return turns.every(({ region }) => region === first?.region) ? first?.region : undefined;
}

const NO_VERDICTS: ReadonlyMap<string, Verdict> = new Map();

/** The check before the isolate asks any region. */
export const pendingOf = (placed: PlacedCheck): Pending => ({
  placed,
  verdicts: NO_VERDICTS,
  admitted: undefined,
  seen: undefined,
});

/** Makes a new map, because all checks start with the same empty one. Most checks are admitted at once and keep it. */
export function setVerdict(one: Pending, region: string, verdict: Verdict): void {
  one.verdicts = new Map(one.verdicts).set(region, verdict);
}

export const isUnanswered = (verdict: Verdict | undefined): boolean =>
  verdict !== undefined && verdict.outcome === undefined;

/** The region had enough time, and did not answer. */
export const isFailure = (verdict: Verdict): boolean => isUnanswered(verdict) && verdict.isTooLate !== true;

const denied = ({ verdicts }: Pending): Outcome[] =>
  [...verdicts.values()].flatMap(({ outcome }) => outcome ?? []);

/** Some region has denied the check, and none has admitted it. A region without an answer does not change that. */
export const isDenied = (one: Pending): boolean =>
  !one.admitted && !one.placed.check.isShadow && denied(one).length > 0;

/** The first denial of the check, with the shortest wait of all denials. The caller looks at `admitted` first. */
export function denialOf(one: Pending): CheckResult<RuleCheck> | undefined {
  const outcomes = denied(one);
  const [nearest] = outcomes;
  const check = [...one.verdicts.values()].find(({ outcome }) => outcome)?.check;
  if (!nearest || !check) return undefined;
  const waits = outcomes.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const retryAfterMs = waits.length > 0 ? Math.min(...waits) : undefined;
  return { check, outcome: { ...nearest, retryAfterMs } };
}

/**
 * The outcome for the whole limit, less the units that this and the earlier regions have used. A bucket drains at the
 * pace of the whole limit.
 */
export function asWhole({ placed, verdicts }: Pending, check: RuleCheck, outcome: Outcome): Outcome {
  if (!isShared(placed)) return outcome;
  const others = verdicts.size === 0 ? NO_ANSWERS : answersElsewhere(verdicts, check);
  const remaining = outcome.remaining + capacityOfAll(placed) - capacityOf(check) - usedIn(others);
  const resetAtMs = wholeResetAtMs(check, outcome, others);
  const isSame = remaining <= outcome.remaining && resetAtMs === outcome.resetAtMs;
  return isSame
    ? outcome
    : outcomeWith(outcome, { remaining: Math.max(remaining, outcome.remaining), resetAtMs });
}

interface Answered {
  readonly check: RuleCheck;
  readonly outcome: Outcome;
}

const NO_ANSWERS: readonly Answered[] = [];

const answersElsewhere = (verdicts: Pending['verdicts'], { region }: RuleCheck): readonly Answered[] =>
  [...verdicts.values()].flatMap(({ check, outcome }) =>
    outcome && check.region !== region ? [{ check, outcome }] : [],
  );

const usedIn = (answers: readonly Answered[]): number =>
  answers.reduce((sum, { check, outcome }) => sum + capacityOf(check) - outcome.remaining, 0);

function wholeResetAtMs(check: RuleCheck, outcome: Outcome, others: readonly Answered[]): number {
  const { nowMs, resetAtMs } = outcome;
  const isAlone = others.length === 0 && check.limit === check.full.limit;
  if (isAlone || nowMs === undefined || !hasBurst(check)) return resetAtMs;
  return nowMs + drainMs([{ check, outcome }, ...others].map(toBucket), check.full.limit);
}

const toBucket = ({ check: { algorithm, limit, extra, windowMs }, outcome }: Answered) => ({
  algorithm,
  limit,
  extra,
  windowMs,
  remaining: outcome.remaining,
  freeInMs: outcome.resetAtMs - (outcome.nowMs ?? outcome.resetAtMs),
});

function capacityOfAll({ check: { algorithm }, parts }: PlacedCheck): number {
  let sum = 0;
  for (const { limit, extra } of parts.values()) sum += capacityOf({ algorithm, limit, extra });
  return sum;
}

/**
 * Undefined if the nearest region does not answer: no region could use parts that are transferred to it now. Also undefined if
 * a stand-in has decided: that says nothing about the parts.
 */
export function useOf({ placed, admitted, verdicts }: Pending, [nearest]: Regions): Use | undefined {
  if (isUnanswered(verdicts.get(nearest.name))) return undefined;
  if (admitted && admitted.result.check.id !== placed.check.id) return undefined;
  if (admitted)
    return { placed, region: admitted.region, counted: admitted.result.check, outcome: admitted.outcome };
  const verdict = [...verdicts.values()].find(({ check, outcome }) => outcome && !isStandIn(check));
  return verdict?.outcome && { placed, region: nearest, counted: verdict.check, outcome: verdict.outcome };
}

export interface CountRequest extends DecisionRequest {
  readonly placed: readonly PlacedCheck[];
  /** Also read the announcement of the first region that answers. */
  readonly withAnnouncement: boolean;
  /**
   * The expected announcement. If a region announces another, the rules are outdated and no further region is asked.
   */
  readonly expected?: string | undefined;
  readonly deadline: Deadline;
  /** See memory.ts. */
  readonly announcement: string;
}

export interface Counted extends Pick<Tally, 'failure' | 'delayedBy' | 'heard'> {
  readonly results: readonly CheckResult<RuleCheck>[];
  /** The regions that answered. */
  readonly regions: readonly LimiterRegion[];
  /** Checks that no region has counted, although one should have. */
  readonly missing: readonly RuleCheck[];
  /** Counting stopped early, because the rules are outdated. */
  readonly isStopped: boolean;
}

export interface RegionalCount {
  count(request: CountRequest): Promise<Counted>;
  /** The results of a denial that memory knows; undefined if a region must be asked. */
  knownDenial(
    request: Pick<CountRequest, 'placed' | 'regions' | 'announcement'>,
  ): CheckResult<RuleCheck>[] | undefined;
  /**
   * Gives all charges of the request back. A caller that these charges have denied may then pass before its retry time.
   */
  undo(ledger: Ledger): Promise<void>;
}

export interface RegionalCountOptions {
  readonly now: () => number;
  readonly denials: KnownDenials;
  readonly transfers: Transfers;
  readonly leases: LeaseBook;
}

/** For this long after an undo, the isolate remembers no denial of the counter: an undone charge may have caused it. */
const UNSETTLED_MS = 5_000;
const MAX_UNSETTLED = 10_000;
/**
 * The isolate may ask each region once for its part and twice to count, because an owner may have got more parts
 * meanwhile, and once to stand in for another.
 */
const roundsFor = (regions: Regions) => 4 * regions.length + 1;

/** Calls that the isolate makes at the same time. */
interface Step {
  readonly turns: readonly Turn[];
  readonly partRequests: readonly TransferRequest[];
}

export function createRegionalCount(options: RegionalCountOptions): RegionalCount {
  const { now, denials, transfers } = options;
  const unsettled = createBoundedCache<true>(MAX_UNSETTLED);
  const isUnsettled = (check: RuleCheck) => unsettled.get(nameOf(check), now()) === true;
  const calls = createRegionCalls({ ...options, isUnsettled });
  const isClosed = ({ breaker }: LimiterRegion) => breaker.state(now()) === 'closed';
  const { turnOf, standInTurnOf, partRequestOf } = createNextRegion({ ...options, isClosed });

  const undo: RegionalCount['undo'] = (ledger) => {
    for (const { check } of ledger.charges) unsettled.set(nameOf(check), true, now() + UNSETTLED_MS);
    return ledger.undo();
  };

  /** Undefined if there is no region left to ask, or if a check is denied and cannot be tried elsewhere. */
  const stepOf = (tally: Tally, request: CountRequest): Step | undefined => {
    const { placed, regions, operation, announcement } = request;
    const memory = operation === 'take' && !placed.some(mustSeeEveryRequest) ? announcement : undefined;
    const partRequests: TransferRequest[] = [];
    let turns: readonly Turn[] = [];
    let isOver = false;
    /** The last check that still waits for a region, and that region. */
    let waiting: RuleCheck | undefined;
    let waitsFor: LimiterRegion | undefined;
    for (const one of tally.pending) {
      if (one.admitted) continue;
      const { check } = one.placed;
      const partRequest = operation === 'take' ? partRequestOf(one, regions) : undefined;
      const own = partRequest ? undefined : turnOf(one, regions, memory);
      const turn = own ?? (partRequest ? undefined : standInTurnOf(one, regions, memory));
      // A region that was removed has not failed, but it does not answer either.
      if (turn && !own) tally.failure ??= 'unavailable';
      // While a rule moves, its old region charges first: see placement.ts.
      if (turn && operation === 'take' && waiting === check && waitsFor !== turn.region) continue;
      if (partRequest) partRequests.push(partRequest);
      else if (turn) turns = withTurn(turns, turn);
      else isOver ||= isDenied(one);
      waiting = turn || partRequest ? check : undefined;
      waitsFor = turn?.region;
    }
    return turns.length + partRequests.length === 0 || isOver ? undefined : { turns, partRequests };
  };

  /** Asks a region for its parts. If that fails, the isolate asks the region to count instead. */
  const askForParts = async (some: TransferCall, tally: Tally, { deadline }: CountRequest) => {
    const { from } = some;
    const signal = AbortSignal.timeout(Math.ceil(from.distance.fitMs(deadline.remainingMs(), true)));
    const asked = await askRegion({
      region: from,
      isFair: true,
      now,
      ask: () => transfers.ask(some, signal),
    });
    if (asked.kind === 'unanswered') tally.delayedBy ??= asked.reason;
  };

  const askToCount = async (
    region: LimiterRegion,
    turns: readonly Turn[],
    tally: Tally,
    request: CountRequest,
  ) => {
    const call = calls.start(region, turns, tally, request);
    if (!call) return;
    let answer: Answer;
    try {
      answer = calls.accept(call, await call.answering, tally);
    } catch (error) {
      return calls.fail(call, error, tally, request);
    }
    calls.hear(call, answer, tally, request);
  };

  const take = ({ turns, partRequests }: Step, tally: Tally, request: CountRequest): Promise<unknown> => {
    const byRegion = [...Map.groupBy(turns, ({ region }) => region)];
    const taking = Promise.all([
      ...asksOf(partRequests).map((some) => askForParts(some, tally, request)),
      ...byRegion.map(([region, some]) => askToCount(region, some, tally, request)),
    ]);
    keepAlive(taking, request);
    return taking;
  };

  /** Denies a check that no region may count now, if all regions answer. Admitting it could exceed the limit. */
  const denyLocked = (one: Pending) => {
    const { placed, admitted, verdicts } = one;
    const waitMs = admitted || verdicts.size > 0 ? undefined : transfers.lockedMs(placed);
    if (waitMs === undefined) return;
    const end = { resetAtMs: now() + waitMs, retryAfterMs: waitMs, nowMs: now() };
    const outcome = { allowed: false, remaining: 0, granted: 0, delayMs: 0, ...end };
    setVerdict(one, '', { check: placed.check, outcome });
  };

  /** The check that should have been counted and was not, with the part of the nearest region that has one. */
  const missedOf = (one: Pending, isRefusal: boolean, regions: Regions): RuleCheck[] => {
    const { placed, admitted, verdicts } = one;
    if (admitted || denialOf(one) || (isRefusal && verdicts.size === 0)) return [];
    const at = regions.flatMap(({ name }) => transfers.checkAt(placed, name) ?? []);
    return [at[0] ?? placed.check];
  };

  const followUses = (pending: readonly Pending[], { regions, afterResponse }: CountRequest) => {
    // With one region there is no other to ask for parts.
    if (regions.length === 1) return;
    catchUp(pending, afterResponse, now());
    const uses: Use[] = [];
    for (const one of pending) {
      const use = useOf(one, regions);
      if (use) uses.push(use);
    }
    transfers.follow(uses, regions, afterResponse);
  };

  const count = async (request: CountRequest): Promise<Counted> => {
    const tally: Tally = {
      pending: mapStable(request.placed, pendingOf),
      heard: [],
      answered: [],
      failure: undefined,
      delayedBy: undefined,
      asksAnnouncement: request.withAnnouncement,
      round: 0,
    };
    let isStopped = false;
    for (; tally.round < roundsFor(request.regions); tally.round += 1) {
      const step = stepOf(tally, request);
      isStopped = step !== undefined && isStopping(tally, request);
      if (!step || isStopped) break;
      const only = step.partRequests.length === 0 ? onlyRegionOf(step.turns) : undefined;
      if (!only) await take(step, tally, request);
      else {
        // Does the same as `askToCount`, without its promise, because most requests make only this call.
        const call = calls.start(only, step.turns, tally, request);
        if (call && (tally.round > 0 || !mayBeDropped(call, now()))) keepAlive(call.answering, request);
        let answer: Answer | undefined;
        try {
          if (call) answer = calls.accept(call, await call.answering, tally);
        } catch (error) {
          if (call) calls.fail(call, error, tally, request);
        }
        if (call && answer) calls.hear(call, answer, tally, request);
      }
      if (tally.pending.every(isAdmitted)) break;
    }
    return conclude(tally, isStopped, request);
  };

  const conclude = (tally: Tally, isStopped: boolean, request: CountRequest): Counted => {
    const { regions, operation, afterResponse, ledger } = request;
    const { pending, failure, delayedBy, heard } = tally;
    const isAll = pending.every(isAdmitted);
    if (!isAll && failure === undefined && !isStopped && regions.every(isClosed)) pending.forEach(denyLocked);
    const isRefusal = !isAll && pending.some(isDenied);
    if (isRefusal && !ledger.isEmpty) afterResponse(undo(ledger));
    if (operation === 'take' && !isStopped) followUses(pending, request);
    const results: CheckResult<RuleCheck>[] = [];
    for (const one of pending) {
      const result = one.admitted?.result ?? denialOf(one) ?? (isRefusal ? one.seen : undefined);
      if (result) results.push(result);
    }
    return {
      results,
      regions: tally.answered,
      missing: isAll || isStopped ? [] : pending.flatMap((one) => missedOf(one, isRefusal, regions)),
      failure,
      delayedBy,
      heard,
      isStopped,
    };
  };

  return {
    count,
    undo,
    knownDenial({ placed, regions, announcement }) {
      if (denials.size === 0 || placed.some(({ check }) => check.countDenied)) return undefined;
      const all = mapStable(placed, pendingOf);
      const known = all.filter((one) => turnOf(one, regions, announcement) === undefined && isDenied(one));
      // Only Redis can tell whether this request would start a block.
      const isOpen = all.some((one) => one.placed.check.blockMs && !known.includes(one));
      return known.length > 0 && !isOpen ? known.flatMap((one) => denialOf(one) ?? []) : undefined;
    },
  };
}

/** Whether the isolate asks no further region, because the rules are outdated. */
const isStopping = ({ heard }: Tally, { expected }: CountRequest): boolean =>
  expected !== undefined && heard.some((one) => isOutdated(one, expected));

const isAdmitted = ({ admitted }: Pending): boolean => admitted !== undefined;

/** Whether the counter must see denied requests, too. */
const mustSeeEveryRequest = ({ check }: PlacedCheck): boolean =>
  check.countDenied === true || check.blockMs !== undefined;
