// Decides whether a request may pass.
//
// # What it promises
//
// Every request gets a decision, within one deadline that also covers finding the caller. (Only a far region gets more
// time, and rules that have lapsed.) No error of a region, of a plan or of the limiter itself makes a request fail: the
// rules then say what happens (`onUnavailable`), and without rules the request goes on. A denied request keeps no
// charge. What memory decides takes no call and no promise, unless a region must first confirm the rules.
//
// # In what order it asks
//
//  1. The plan. The caller of `decide` plans the request by the rules of the round: these checks, or a reason for a
//     decision without checks (a list, a credential).
//  2. Memory. Leases pay for checks: their units were charged in advance. A known denial denies without a call.
//  3. The nearest region. One call counts all checks that memory leaves open. It also reads the announcement of the
//     rules when that is due. If memory decides alone, a call of its own reads it.
//  4. Other regions: the owner of a counter that has moved, the owner of a counter that only one region has, and for a
//     denied check the regions that still have a part of its limit.
//  5. A stand-in, if the region that should count a check does not answer.
//  6. This isolate alone, if no region answers. It knows only its own requests. A peek then gets no answer.
//
// All this is a round: one attempt by one set of rules. If a region announces newer rules, and they are loaded in time,
// the charges of the round are given back, the request is planned again, and there is another round.
//
// # Why it never exceeds a limit
//
// A region judges and charges in one script, by its own clock: all checks of a call or none. Regions count with their
// own parts, and the parts add up to the limit. A part moves to another region when no charge made with it counts any
// more, or when that region has charged itself as much; it comes back in the same way. A leased unit is charged before a
// request uses it. Memory alone can deny, but admits only what was charged. A call without an answer may have charged:
// at worst its units are lost, never used twice. The exceptions are 5 and 6: while a counter cannot be reached, a
// stand-in counts from zero, and an isolate alone counts as the rule says.
//
// # Who does what
//
//   limiter.ts         the order above; rounds; errors
//   memory.ts          what memory knows about a request; known denials
//   count.ts           the machine that counts checks in regions: which calls to make after each answer, and the
//                      conclusion. next-region.ts: whom it asks, and how long it waits; verdicts.ts: what answers mean
//   calls.ts           makes the calls of the machine
//   region.ts          one region: its breaker, probes of a failed region, its distance, the number of its isolates
//   transfers.ts       parts that one region transfers to another; merging.ts: small limits that one region counts alone
//   leases.ts          the leases of this isolate; lease-counter.ts: one counter and its pace; lease-terms.ts: how much
//                      to lease; lease-use.ts: uses leases, and asks for the next ones after responses
//   fallback.ts        decides in this isolate alone
//   rules-in-force.ts  reads announcements and loads newer rules
//   ledger.ts          all charges of one request; refunds, settles, renews and releases them
//   deadline.ts        the time that is left; work that must survive its request
//
// # What must never be
//
// A request is admitted, as counted, with a check that nobody has counted. A peek charges something, or memory decides
// it. Two requests share a ledger. Anybody but the ledger changes a charge. A round counts before the charges of the
// round before it are on their way back. A request waits for a promise of another request: on Workers, it would hang.
// count.ts names what must never be while it counts. Where such a thing can be seen, the code throws, and the request
// goes on as its rules say.

import {
  type CheckResult,
  type Decision,
  type DegradedDecision,
  type DegradedReason,
  isDenying,
  stamped,
  type Unstamped,
} from '../core/decision.ts';
import type { Plan, RefusedCredential, RuleCheck } from '../core/matching/plan.ts';
import type { SharesByRegion } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { createPlacer, type PlacedCheck } from '../core/regions/placement.ts';
import { type FieldError, textOfErrors } from '../core/shape.ts';
import { createCalls } from './calls.ts';
import { type Conclusion, knownDenial } from './count.ts';
import { createDeadline, type Deadline, keepAlive, waitHalf } from './deadline.ts';
import { createLocalLimiter, type FallbackRequest } from './fallback.ts';
import { createLeaseUse } from './lease-use.ts';
import { createLeaseBook, type LeaseBook } from './leases.ts';
import { createLedger, type Ledger } from './ledger.ts';
import { createDecisionMemory, createKnownDenials, NO_CHECKS, type SortedChecks } from './memory.ts';
import { type LimiterRegion, type Regions, reasonOf } from './region.ts';
import { createRulesInForce, type RulesNews } from './rules-in-force.ts';
import { createTransfers } from './transfers.ts';

export interface Limiter {
  /**
   * Plans the request, once in each round, and decides it. Returns a promise only if the plan is one, a region must
   * count the checks or confirm the rules, or this isolate has no rules yet. Throws only `DoesNotFit`.
   */
  decide(request: DecisionRequest, plan: MakePlan): Decision | Promise<Decision>;
  /** What this isolate has leased and not used yet. */
  leased(): ReturnType<LeaseBook['total']>;
  /** Units leased of one counter; undefined if its rule is never leased. */
  leasedOf(check: RuleCheck): number | undefined;
}

export interface LimiterOptions {
  readonly snapshots: SnapshotSource;
  /** For the whole decision: finding the caller, all regions, and the retry after a lost script cache. */
  readonly deadlineMs: number;
  /** The configured shares, used for snapshots that predate regional splits. */
  readonly shares: SharesByRegion;
  /** Gets the results of shadow rules that are counted after the response, which only happens with several regions. */
  readonly onShadow: (results: readonly CheckResult<RuleCheck>[], region: string) => void;
  /** Gets the error of a bug in Weir. The request goes on as its rules say. */
  readonly onBug: (error: unknown) => void;
  /** See fallback.ts. */
  readonly capPerSecond: number;
  /** Called once. The census counts this isolate by its id. */
  readonly isolateId: () => string;
  readonly now: () => number;
}

/** No request waits for shadow rules, so they may take long. */
const SHADOW_MS = 5_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const { snapshots, deadlineMs, capPerSecond, now, onBug } = options;
  const announcement = () => snapshots.announced();
  const rules = createRulesInForce({ snapshots, deadlineMs, now });
  const denials = createKnownDenials();
  const transfers = createTransfers(now);
  const leases = createLeaseBook(now);
  const counting = { now, denials, transfers, leases };
  const countChecks = createCalls(counting);
  const leasing = createLeaseUse({ now, book: leases, transfers, announcement });
  const place = createPlacer(options.shares, now);
  const memory = createDecisionMemory({
    place,
    leasing,
    knownDenial: (request) => knownDenial(counting, request),
    announcement,
  });
  const local = createLocalLimiter({ now, capPerSecond });
  let ownId: string | undefined;

  const decide: Limiter['decide'] = (asked, makePlan) => {
    const request = reporting(asked);
    let round: OpenRound | undefined;
    try {
      if (!request.ledger.isEmpty)
        throw new Error('expected an empty ledger, got one with charges of another request');
      const snapshot = snapshots.current();
      if (!snapshot) return start(request, makePlan);
      round = firstRound(request, makePlan, snapshot);
      const plan = makePlan(round);
      if (plan instanceof Promise) return inRounds(round, plan);
      return fromMemory(round, plan) ?? inRounds(round, undefined);
    } catch (error) {
      return recover(error, round ?? { request });
    }
  };

  /** Also reports the errors of work after the response. */
  const reporting = ({ regions, operation, ledger, afterResponse }: DecisionRequest): DecisionRequest => {
    return { regions, operation, ledger, afterResponse: (work) => afterResponse(work.catch(onBug)) };
  };

  const start = async (request: DecisionRequest, makePlan: MakePlan): Promise<Decision> => {
    try {
      const starting = rules.start(request);
      keepAlive(starting, request);
      const snapshot = await starting;
      if (!snapshot) return decided(request, degraded(request, { reason: 'no-rules' }));
      const round = firstRound(request, makePlan, snapshot);
      return await inRounds(round, makePlan(round));
    } catch (error) {
      return recover(error, { request });
    }
  };

  const firstRound = (request: DecisionRequest, makePlan: MakePlan, snapshot: Snapshot): OpenRound => {
    const startedAtMs = now();
    return {
      request,
      makePlan,
      snapshot,
      deadline: createDeadline(deadlineMs, now, startedAtMs),
      startedAtMs,
      probe: snapshots.probe(),
      plan: UNPLANNED,
      sorted: NO_CHECKS,
      hearing: undefined,
      delayedBy: undefined,
      knownDenied: undefined,
      isKnownDenied(checks) {
        // Judges as the decision will: otherwise leased units could admit a request whose caller was not looked up.
        const sorted = memory.sort(request, this.snapshot, checks);
        this.knownDenied = sorted.denial && sorted;
        return sorted.denial !== undefined;
      },
    };
  };

  /** Decides without a call, if memory can and no region must confirm the rules first. */
  const fromMemory = (round: OpenRound, plan: RequestPlan): Decision | undefined => {
    round.plan = plan;
    round.sorted = memory.sort(round.request, round.snapshot, checksOf(plan));
    // A denial that the plan was told of holds for its request, even if it has ended a moment later: the caller was not
    // looked up because of it.
    if (round.knownDenied && plan.kind === 'checks' && !round.sorted.denial) round.sorted = round.knownDenied;
    if (round.sorted.open.length > 0 && !round.sorted.denial) return undefined;
    round.hearing = rules.hear(round);
    return round.hearing ? undefined : byMemory(round);
  };

  /** Undefined if a lease has ended meanwhile. */
  const byMemory = (round: OpenRound): Decision | undefined => {
    const { leased, denial } = round.sorted;
    if (leased.length === 0 || denial) return finish(round, uncounted(round.plan, denial));
    const used = leasing.use(leased, round.request);
    return used && finish(round, judge(round, used));
  };

  /** A region must confirm the rules before they decide, because the last confirmation is too old. */
  const afterNews = async (
    round: OpenRound,
    hearing: Promise<RulesNews>,
  ): Promise<RoundResult | undefined> => {
    const { news, delayedBy } = await hearing;
    round.delayedBy = delayedBy;
    return news && (await rules.follow(news, round)) ? 'outdated' : byMemory(round);
  };

  /**
   * All rounds of a request that memory alone does not decide. Without a plan, memory has been asked in the first round.
   * One function, because each promise costs every request time.
   */
  const inRounds = async (
    first: OpenRound,
    planning: RequestPlan | Promise<RequestPlan> | undefined,
  ): Promise<Decision> => {
    let round = first;
    let plan = planning;
    try {
      for (;;) {
        let result: RoundResult | undefined = plan && fromMemory(round, await plan);
        if (round.hearing) result = await afterNews(round, round.hearing);
        if (!result) {
          const used = useLeases(round);
          const conclusion = await count(round, used);
          const news = newsOf(round, conclusion);
          const isReplaced = news !== undefined && (await rules.follow(news, round));
          result =
            isReplaced || conclusion.isStopped ? 'outdated' : finish(round, judge(round, used, conclusion));
        }
        if (result !== 'outdated') return result;
        round = await nextRound(round);
        plan = round.makePlan(round);
      }
    } catch (error) {
      return recover(error, round);
    }
  };

  /** Uses leases for the checks that have some. The regions count the others, or all if a lease has ended meanwhile. */
  const useLeases = ({ request, sorted: { leased, open } }: OpenRound): Results | undefined =>
    open.length > 0 ? leasing.use(leased, request) : undefined;

  const count = ({ request, deadline, probe, sorted }: OpenRound, used: Results | undefined) =>
    countChecks({
      regions: request.regions,
      operation: request.operation,
      ledger: request.ledger,
      afterResponse: request.afterResponse,
      placed: used ? sorted.open : sorted.enforced,
      deadline,
      announcement: announcement(),
      withAnnouncement: probe !== undefined,
      // Rules that were confirmed a moment ago may decide one more request.
      expected: probe?.isOverdue ? probe.expected : undefined,
    });

  /** What the regions said about the rules and about their isolates, beside counting. */
  const newsOf = (round: OpenRound, { regions, delayedBy, announced }: Conclusion) => {
    round.delayedBy ??= delayedBy;
    for (const region of regions) reportToCensus(region, round.request.afterResponse);
    return round.probe && regions.length > 0 ? rules.learn(round.probe, announced) : undefined;
  };

  /** A decision that takes no call to the counters. */
  const uncounted = (plan: RequestPlan, denial: Results | undefined): Unstamped => {
    if (denial)
      return { kind: 'counted', allowed: false, nowMs: denial[0]?.outcome.nowMs ?? now(), results: denial };
    if (plan.kind === 'unverified' || plan.kind === 'over-allowance') return { ...plan, allowed: false };
    if (plan.kind === 'listed') return { ...plan, allowed: plan.list === 'allow' };
    if (plan.checks.length === 0) return { kind: 'unlimited', allowed: true };
    // All rules of the request are shadow rules.
    return { kind: 'counted', allowed: true, nowMs: now(), results: [] };
  };

  /** Decides by the leases used and by what the regions have counted. */
  const judge = (
    { request, startedAtMs }: OpenRound,
    used: Results = [],
    conclusion?: Conclusion,
  ): Unstamped => {
    const { results: others = [], missing = [], failure } = conclusion ?? {};
    const results = used.length === 0 ? others : [...used, ...others];
    const allowed = !results.some(isDenying);
    // A region without an answer does not overrule one that denies.
    if (allowed && missing.length > 0)
      return degraded(request, { reason: failure ?? 'unavailable', checks: missing });
    const nowMs = results[0]?.outcome.nowMs ?? startedAtMs;
    return { kind: 'counted', allowed, nowMs, results, failedOver: failure };
  };

  const finish = (round: OpenRound, decision: Unstamped): Decision => {
    const { request, snapshot, startedAtMs, sorted } = round;
    const { enforced, leased, shadow, denial } = sorted;
    if (request.operation === 'peek' && (leased.length > 0 || denial || !request.ledger.isEmpty))
      throw new Error(
        'expected a peek to charge nothing and to ask a region, but it was charged or memory decided',
      );
    if (decision.kind === 'counted' && decision.allowed && decision.results.length < enforced.length)
      throw new Error(`expected ${enforced.length} counted checks, got ${decision.results.length}`);
    if (decision.allowed && shadow.length > 0) request.afterResponse(countShadow(request, shadow));
    const isStale = !snapshots.isConfirmed(startedAtMs);
    return decided(request, stamped(decision, snapshot.version, isStale, round.delayedBy));
  };

  const countShadow = async ({ regions, afterResponse }: DecisionRequest, placed: readonly PlacedCheck[]) => {
    const { results } = await countChecks({
      regions,
      afterResponse,
      placed,
      operation: 'take',
      withAnnouncement: false,
      announcement: announcement(),
      deadline: createDeadline(SHADOW_MS, now),
      // Charges of shadow rules never change later, so nobody keeps this ledger.
      ledger: createLedger(onBug),
    });
    options.onShadow(results, regions[0].name);
  };

  /**
   * Gives the charges of this round back before the next round counts. If that takes too long, the next round counts
   * all the same; at worst, the first charge denies the request. If a refund is lost, the request stays charged twice
   * until its windows end. Side effects of a denial stay: a block goes on, and a counted denial stays counted.
   */
  const nextRound = async ({ probe, ...round }: OpenRound): Promise<OpenRound> => {
    const { request } = round;
    const snapshot = snapshots.current() ?? round.snapshot;
    // Waiting for lapsed rules is treated like a cold start: the deadline begins after it.
    const deadline = probe?.isLapsed ? createDeadline(deadlineMs, now) : round.deadline;
    if (!request.ledger.isEmpty) {
      const undone = undo(request.ledger);
      request.afterResponse(undone);
      await waitHalf(deadline, undone, undefined);
    }
    return {
      ...round,
      plan: UNPLANNED,
      sorted: NO_CHECKS,
      knownDenied: undefined,
      hearing: undefined,
      deadline,
      snapshot,
    };
  };

  const undo = (ledger: Ledger): Promise<void> => {
    denials.unsettle(ledger.charges, now());
    return ledger.undo();
  };

  /** Decides a request that no region has counted. */
  const degraded = (
    { regions, operation, ledger }: DecisionRequest,
    what: Pick<FallbackRequest, 'reason' | 'checks'>,
  ): DegradedDecision =>
    operation === 'take'
      ? local.decide({ ...what, ledger, isolates: regions[0].census.count(), regions: regions.length })
      : { kind: 'degraded', allowed: false, fallback: 'closed', reason: what.reason };

  /** Decides as the rules of the plan say, if there is one. Otherwise the request goes on. */
  const recover = (error: unknown, { request, plan = UNPLANNED }: FailedRound): Decision => {
    if (error instanceof DoesNotFit) throw error;
    const reason = reasonOf(error);
    if (reason === 'internal-error') onBug(error);
    let decision: Decision;
    try {
      decision = degraded(request, { reason, checks: checksOf(plan) });
    } catch (another) {
      onBug(another);
      decision = degraded(request, { reason });
    }
    return decided(request, decision);
  };

  /** A denied request keeps no charge. Failed regions are probed after the response. */
  const decided = ({ regions, ledger, afterResponse }: DecisionRequest, decision: Decision): Decision => {
    if (!decision.allowed && !ledger.isEmpty) afterResponse(undo(ledger));
    for (const { watch } of regions) watch.look(afterResponse);
    return decision;
  };

  /** Reports this isolate to the census now and then, so that every isolate knows how many there are. */
  const reportToCensus = ({ census }: LimiterRegion, afterResponse: AfterResponse) => {
    if (!census.isDue(now())) return;
    ownId ??= options.isolateId();
    afterResponse(census.report(ownId, AbortSignal.timeout(deadlineMs)).catch(() => {}));
  };

  return { decide, leased: leases.total, leasedOf: leases.unitsOf };
}

/** What an error leaves behind: a request, and its plan if it had one. */
type FailedRound = Pick<OpenRound, 'request'> & Partial<OpenRound>;

/** `outdated`: newer rules have been loaded, and they must decide the request. */
type RoundResult = Decision | 'outdated';

type Results = readonly CheckResult<RuleCheck>[];

const UNPLANNED = { kind: 'checks', checks: [] } as const;
const checksOf = (plan: RequestPlan): readonly RuleCheck[] =>
  plan.kind === 'checks' ? plan.checks : UNPLANNED.checks;

// A request that needs a decision, and how it is planned.

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` charges nothing. If no region answers, the isolate does not decide a `peek` in memory. */
  readonly operation: 'take' | 'peek';
  /** Empty at first. Gets all charges, certain or in doubt. The limiter gives the charges of a denied request back. */
  readonly ledger: Ledger;
  readonly afterResponse: AfterResponse;
}

/** One attempt to decide a request, with one set of rules. */
export interface Round {
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  /** Whether memory knows that one of these checks denies the request. */
  isKnownDenied(checks: readonly RuleCheck[]): boolean;
}

/** The checks of the request, or the reason for a decision without checks. */
export type RequestPlan = Plan | RefusedCredential;

/** The limiter recovers from what this throws, unless it is `DoesNotFit`. */
export type MakePlan = (round: Round) => RequestPlan | Promise<RequestPlan>;

/** These rules cannot plan the request. It keeps no charge and gets no decision. */
export class DoesNotFit extends Error {
  readonly snapshot: Snapshot;
  readonly errors: readonly FieldError[];

  constructor(snapshot: Snapshot, errors: readonly FieldError[]) {
    super(textOfErrors(errors));
    this.snapshot = snapshot;
    this.errors = errors;
  }
}

interface OpenRound extends Round {
  readonly request: DecisionRequest;
  readonly makePlan: MakePlan;
  /** `UNPLANNED` until there is one. */
  plan: RequestPlan;
  /** The checks of the plan. */
  sorted: SortedChecks;
  /** What memory knew when it said that the request is denied; undefined if it has not said so in this round. */
  knownDenied: SortedChecks | undefined;
  /** Set if a region must confirm the rules before they decide. */
  hearing: Promise<RulesNews> | undefined;
  readonly startedAtMs: number;
  /** If there is one, the round reads the announcement in the call to Redis that it makes anyway. */
  readonly probe?: Probe | undefined;
  /** Why the request has waited longer for regions than it should. Set as soon as it is known. */
  delayedBy?: DegradedReason | undefined;
}
