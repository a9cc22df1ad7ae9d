// Decides a request in rounds. A round uses one set of rules and mostly makes one call to the nearest region. One
// deadline covers all rounds. If the rules are outdated, there is one more round. If no region answers, this isolate
// decides alone.

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
import { type Counted, createRegionalCount } from './count.ts';
import { createDeadline, type Deadline, keepAlive, waitHalf } from './deadline.ts';
import { createLocalLimiter, type Uncounted } from './fallback.ts';
import { createLeaseBook, createLeasing, type Leased } from './leases.ts';
import { createLedger, type Ledger } from './ledger.ts';
import { createDecisionMemory, createKnownDenials, type Known } from './memory.ts';
import { createPlacing, type PlacedCheck } from './next-region.ts';
import { type LimiterRegion, type Regions, reasonOf } from './region-calls.ts';
import { createRulesInForce, type Hearing } from './rules-in-force.ts';
import { createCessions } from './transfers.ts';

export interface Limiter {
  /**
   * Returns the first round, or a decision if this isolate has no rules and cannot load any. Returns a promise only if
   * the isolate has no rules yet.
   */
  begin(request: DecisionRequest): Step | Promise<Step>;
  /**
   * Returns the decision, or one more round if the rules are outdated. Returns a promise only if a region must count
   * the checks or confirm the rules. Never throws.
   */
  decide(round: Round, plan: RequestPlan): Step | Promise<Step>;
  /** Whether memory knows that one of these checks denies the request. */
  isKnownDenied(round: Round, checks: readonly RuleCheck[]): boolean;
  /** What this isolate has leased and not used yet. */
  leased(): Leased;
  /** Units leased of one counter; undefined if its rule is never leased. */
  leasedOf(check: RuleCheck): number | undefined;
  /** Decides after an error that came before the request had a plan. The request goes on. */
  recover(request: DecisionRequest, error: unknown): Decision;
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
  /** See local-limiter.ts. */
  readonly capPerSecond: number;
  /** Called once. The census counts this isolate by its id. */
  readonly isolateId: () => string;
  readonly now: () => number;
}

/** No request waits for shadow rules, so they may take long. */
const SHADOW_MS = 5_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const { snapshots, deadlineMs, capPerSecond, now, onBug } = options;
  const rules = createRulesInForce({ snapshots, deadlineMs, now });
  const cessions = createCessions(now);
  const leases = createLeaseBook(now);
  const regional = createRegionalCount({ now, denials: createKnownDenials(), cessions, leases });
  const leasing = createLeasing({ now, book: leases, cessions, announcement: () => snapshots.announced() });
  const memory = createDecisionMemory({
    placing: createPlacing(options.shares, now),
    regional,
    leasing,
    announcement: () => snapshots.announced(),
  });
  const local = createLocalLimiter({ now, capPerSecond });
  let ownId: string | undefined;

  const begin: Limiter['begin'] = (asked) => {
    const request = reporting(asked);
    const snapshot = snapshots.current();
    return snapshot ? firstRound(request, snapshot) : start(request);
  };

  /** Also reports the errors of work after the response. */
  const reporting = ({ regions, operation, ledger, afterResponse }: DecisionRequest): DecisionRequest => {
    return { regions, operation, ledger, afterResponse: (work) => afterResponse(work.catch(onBug)) };
  };

  const start = async (request: DecisionRequest): Promise<Step> => {
    try {
      const starting = rules.start(request);
      keepAlive(starting, request);
      const snapshot = await starting;
      if (snapshot) return firstRound(request, snapshot);
      return decided(request, degraded(request, { reason: 'no-rules' }));
    } catch (error) {
      return decideDespite(error, request);
    }
  };

  const firstRound = (request: DecisionRequest, snapshot: Snapshot): Round => {
    const startedAtMs = now();
    const deadline = createDeadline(deadlineMs, now, startedAtMs);
    const probe = snapshots.probe();
    return { kind: 'round', request, snapshot, deadline, startedAtMs, probe, delayedBy: undefined };
  };

  const decide: Limiter['decide'] = (round, plan) => {
    try {
      const known = memory.lookUp(round, checksOf(plan));
      if (known.open.length > 0 && !known.denial) return byCall(round, plan, known);
      const hearing = rules.hear(round);
      if (hearing) return afterNews(round, plan, known, hearing);
      return byMemory(round, plan, known) ?? byCall(round, plan, known);
    } catch (error) {
      return decideDespite(error, round.request, plan);
    }
  };

  /** Decides without a call; undefined if a lease has ended meanwhile. */
  const byMemory = (round: Round, plan: RequestPlan, known: Known): Step | undefined => {
    const { leased, denial, shadow } = known;
    if (leased.length === 0 || denial) return finish(round, uncounted(plan, denial), shadow);
    const used = leasing.use(leased, round.request);
    return used && finish(round, judge(round, used), shadow);
  };

  /** Asks a region to confirm the rules before they decide, because the last confirmation is too old. */
  const afterNews = async (
    round: Round,
    plan: RequestPlan,
    known: Known,
    hearing: Promise<Hearing>,
  ): Promise<Step> => {
    try {
      const { news, delayedBy } = await hearing;
      round.delayedBy = delayedBy;
      if (news && (await rules.follow(news, round))) return await again(round);
      return byMemory(round, plan, known) ?? (await byCall(round, plan, known));
    } catch (error) {
      return decideDespite(error, round.request, plan);
    }
  };

  /** Uses leases for the checks that have some, and counts the others. */
  const byCall = async (round: Round, plan: RequestPlan, known: Known): Promise<Step> => {
    const { request, probe } = round;
    const { enforced, leased, open, shadow } = known;
    try {
      const used = open.length > 0 ? leasing.use(leased, request) : undefined;
      const counted = await count(round, used ? open : enforced);
      round.delayedBy ??= counted.delayedBy;
      for (const region of counted.regions) reportToCensus(region, request.afterResponse);
      const news = probe && counted.regions.length > 0 ? rules.learn(probe, counted.heard) : undefined;
      const isReplaced = news !== undefined && (await rules.follow(news, round));
      if (isReplaced || counted.isStopped) return await again(round);
      return finish(round, judge(round, used, counted), shadow);
    } catch (error) {
      return decideDespite(error, round.request, plan);
    }
  };

  const decideDespite = (error: unknown, request: DecisionRequest, plan?: RequestPlan): Decided =>
    decided(request, recover(request, error, plan && checksOf(plan)));

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

  const count = ({ request, deadline, probe }: Round, placed: readonly PlacedCheck[]) =>
    regional.count({
      regions: request.regions,
      operation: request.operation,
      ledger: request.ledger,
      afterResponse: request.afterResponse,
      placed,
      deadline,
      announcement: snapshots.announced(),
      withAnnouncement: probe !== undefined,
      // Rules that were confirmed a moment ago may decide one more request.
      expected: probe?.isOverdue ? probe.expected : undefined,
    });

  /** Decides by the leases used and by what the regions have counted. */
  const judge = ({ request, startedAtMs }: Round, used: Results = [], counted?: Counted): Unstamped => {
    const { results: others = [], missing = [], failure } = counted ?? {};
    const results = used.length === 0 ? others : [...used, ...others];
    const allowed = !results.some(isDenying);
    // A region without an answer does not overrule one that denies.
    if (allowed && missing.length > 0)
      return degraded(request, { reason: failure ?? 'unavailable', checks: missing });
    const nowMs = results[0]?.outcome.nowMs ?? startedAtMs;
    return { kind: 'counted', allowed, nowMs, results, failedOver: failure };
  };

  const finish = (round: Round, decision: Unstamped, shadow: readonly PlacedCheck[]): Step => {
    const { request, snapshot, startedAtMs } = round;
    if (decision.allowed && shadow.length > 0) request.afterResponse(countShadow(request, shadow));
    const isStale = !snapshots.isConfirmed(startedAtMs);
    return decided(request, stamped(decision, snapshot.version, isStale, round.delayedBy));
  };

  const countShadow = async ({ regions, afterResponse }: DecisionRequest, placed: readonly PlacedCheck[]) => {
    const { results } = await regional.count({
      regions,
      afterResponse,
      placed,
      operation: 'take',
      withAnnouncement: false,
      announcement: snapshots.announced(),
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
  const again = async ({ probe, ...round }: Round): Promise<Round> => {
    const { request, snapshot } = round;
    // Waiting for lapsed rules is treated like a cold start: the deadline begins after it.
    const deadline = probe?.isLapsed ? createDeadline(deadlineMs, now) : round.deadline;
    if (!request.ledger.isEmpty) {
      const undone = regional.undo(request.ledger);
      request.afterResponse(undone);
      await waitHalf(deadline, undone, undefined);
    }
    return { ...round, deadline, snapshot: snapshots.current() ?? snapshot };
  };

  /** Decides a request that no region has counted. */
  const degraded = (
    { regions, operation, ledger }: DecisionRequest,
    what: Pick<Uncounted, 'reason' | 'checks'>,
  ): DegradedDecision =>
    operation === 'take'
      ? local.decide({ ...what, ledger, isolates: regions[0].census.count(), regions: regions.length })
      : { kind: 'degraded', allowed: false, fallback: 'closed', reason: what.reason };

  /** Decides as the rules say, if there are any. Otherwise the request goes on. */
  const recover = (request: DecisionRequest, error: unknown, checks?: readonly RuleCheck[]): Decision => {
    const reason = reasonOf(error);
    if (reason === 'internal-error') onBug(error);
    try {
      return degraded(request, { reason, checks });
    } catch (another) {
      onBug(another);
      return degraded(request, { reason });
    }
  };

  /** A denied request keeps no charge. Failed regions are probed after the response. */
  const decided = ({ regions, ledger, afterResponse }: DecisionRequest, decision: Decision): Decided => {
    if (!decision.allowed && !ledger.isEmpty) afterResponse(regional.undo(ledger));
    for (const { watch } of regions) watch.look(afterResponse);
    return { kind: 'decided', decision };
  };

  /** Reports this isolate to the census now and then, so that every isolate knows how many there are. */
  const reportToCensus = ({ census, censusBoard }: LimiterRegion, afterResponse: AfterResponse) => {
    if (!census.isDue(now())) return;
    ownId ??= options.isolateId();
    const signal = AbortSignal.timeout(deadlineMs);
    // If the call fails, the isolate keeps the last number and tries again when the next report is due.
    afterResponse(censusBoard.present(ownId, signal).then(census.tell, () => {}));
  };

  return {
    begin,
    decide,
    recover: (request, error) => decideDespite(error, reporting(request)).decision,
    leased: leases.total,
    leasedOf: leases.unitsOf,
    isKnownDenied: memory.isKnownDenied,
  };
}

type Results = readonly CheckResult<RuleCheck>[];

const NO_CHECKS: readonly RuleCheck[] = [];
const checksOf = (plan: RequestPlan): readonly RuleCheck[] =>
  plan.kind === 'checks' ? plan.checks : NO_CHECKS;

// A request that needs a decision, and the steps to that decision.

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` charges nothing. If no region answers, the isolate does not decide a `peek` in memory. */
  readonly operation: 'take' | 'peek';
  /** Gets all charges, certain or in doubt. The limiter gives the charges of a denied request back. */
  readonly ledger: Ledger;
  readonly afterResponse: AfterResponse;
}

/** The checks of the request, or the reason for a decision without checks. */
export type RequestPlan = Plan | RefusedCredential;

/** One pass over a request, with one set of rules. */
export interface Round {
  readonly kind: 'round';
  readonly request: DecisionRequest;
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  readonly startedAtMs: number;
  /** If there is one, the round reads the announcement in the call to Redis that it makes anyway. */
  readonly probe?: Probe | undefined;
  /** Why the request has waited longer for regions than it should. Set as soon as it is known. */
  delayedBy?: DegradedReason | undefined;
}

export interface Decided {
  readonly kind: 'decided';
  readonly decision: Decision;
}

export type Step = Round | Decided;
