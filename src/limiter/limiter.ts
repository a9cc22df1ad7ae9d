// Decides a request: by rules that are confirmed to be in force, mostly with one call to the counters of one region,
// under one deadline. A denial that is known is not asked for again. If no region answers, this isolate decides for itself.

import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  type DegradedDecision,
  denyingResults,
  resultsOf,
} from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { Plan, RuleCheck, Unverified } from '../core/matching/plan.ts';
import type { SharesByRegion } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { News, Question, SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createCessions } from './cessions.ts';
import { createCharges, hasSequelOf } from './charges.ts';
import { createDeadline, type Deadline, waitHalf } from './deadline.ts';
import { createGuard } from './guard.ts';
import { createKnownDenials } from './known-denials.ts';
import { createLocalLimiter } from './local-limiter.ts';
import { createPlacing, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';
import { type Counted, createRegionalCount, giveBack } from './regional-count.ts';
import { createRulesInForce } from './rules-in-force.ts';

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` only looks: nothing is charged, and nothing is decided without counters. */
  readonly operation: 'take' | 'peek';
  /** What the request is up against; asked again if the rules turn out to have changed. */
  readonly plan: (
    snapshot: Snapshot,
    deadline: Deadline,
    isKnownDenied: IsKnownDenied,
  ) => Promise<Plan | Unverified>;
  readonly afterResponse: AfterResponse;
  /** What shadow rules would have done; told later, where there are several regions. */
  readonly onShadow?: ((results: readonly CheckResult<RuleCheck>[]) => void) | undefined;
}

/** Whether memory tells that one of these checks denies the request. */
export type IsKnownDenied = (checks: readonly RuleCheck[]) => boolean;

export interface Limiter {
  decide(request: DecisionRequest): Promise<Decision>;
}

export interface LimiterOptions {
  readonly snapshots: SnapshotSource;
  /** For the whole decision: who calls, all regions, and the retry after a lost script cache. */
  readonly deadlineMs: number;
  /** Of the regions, as configured: for rules that were published before they were known of. */
  readonly shares: SharesByRegion;
  /** What was to be given back and was not. */
  readonly onError: (error: unknown) => void;
  /** A mistake in Weir itself. The request goes on as its rules say. */
  readonly onBug: (error: unknown) => void;
  /** See local-limiter.ts. */
  readonly capPerSecond: number;
  /** Asked for once: this isolate is counted in by it. */
  readonly isolateId: () => string;
  readonly now: () => number;
}

/** One pass over a request, by one set of rules. */
interface Pass {
  readonly request: DecisionRequest;
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  /** Asked, if there is one, in the call to Redis that is made anyway. */
  readonly question?: Question | undefined;
}

interface Passed {
  readonly decision: Decision;
  /** Another announcement than the expected one: these rules are outdated. */
  readonly news: News | undefined;
  /** Because of the news, not all was counted: it is no decision yet. */
  readonly isStopped?: boolean | undefined;
  /** Counted after the response. */
  readonly shadow: readonly PlacedCheck[];
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { snapshots, deadlineMs, capPerSecond, now, onError, onBug } = options;
  const rules = createRulesInForce({ snapshots, deadlineMs, now });
  const placing = createPlacing(options.shares, now);
  const cessions = createCessions(now);
  const regional = createRegionalCount({ now, denials: createKnownDenials(), cessions, onError });
  const local = createLocalLimiter({ now, capPerSecond });
  let ownId: string | undefined;

  const decideBy = async (pass: Pass): Promise<Passed> => {
    const { request, snapshot } = pass;
    const isKnownDenied: IsKnownDenied = (checks) =>
      knownDenial(request, placeAll(pass, checks).placed) !== undefined;
    const plan = await request.plan(snapshot, pass.deadline, isKnownDenied);
    const { placed, shadow } = placeAll(pass, plan.kind === 'checks' ? plan.checks : []);
    const denial = knownDenial(request, placed);
    const passed =
      placed.length > 0 && !denial
        ? await count(pass, placed)
        : { decision: uncounted(plan, denial), news: await rules.hear(pass) };
    return { ...passed, decision: { ...passed.decision, rulesVersion: snapshot.version }, shadow };
  };

  /** What takes no call to the counters. */
  const uncounted = (plan: Plan | Unverified, denial: Results | undefined): Decision => {
    if (denial) {
      const nowMs = denial[0]?.outcome.nowMs ?? now();
      return { kind: 'counted', allowed: false, nowMs, results: denial, unanswered: [], ...UNKNOWN };
    }
    if (plan.kind === 'unverified') return { ...plan, allowed: false, ...UNKNOWN };
    if (plan.kind === 'listed') return { ...plan, allowed: plan.list === 'allow', ...UNKNOWN };
    if (plan.checks.length === 0) return { kind: 'unlimited', allowed: true, ...UNKNOWN };
    // All of its rules are shadows.
    return { kind: 'counted', allowed: true, nowMs: now(), results: [], unanswered: [], ...UNKNOWN };
  };

  /**
   * Where there are several regions, shadow rules are counted after the response: nobody waits for them. Not those
   * whose charges are changed later: they must be known by then.
   */
  const placeAll = ({ request, snapshot }: Pass, checks: readonly RuleCheck[]) => {
    const { regions, operation } = request;
    const isLater = (check: RuleCheck) =>
      check.log === true && regions.length > 1 && operation === 'take' && !hasSequelOf(check);
    const enforced = checks.filter((check) => !isLater(check));
    const place = (some: readonly RuleCheck[]) => placing.place(some, regions, snapshot.split);
    return { placed: place(enforced), shadow: place(checks.filter(isLater)) };
  };

  /** By memory alone. */
  const knownDenial = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) =>
    operation === 'take' && placed.length > 0
      ? regional.recall({ placed, regions, era: snapshots.announced() })
      : undefined;

  const count = async (pass: Pass, placed: readonly PlacedCheck[]) => {
    const { request, deadline, question } = pass;
    const { regions, operation, afterResponse } = request;
    const era = snapshots.announced();
    const askedAtMs = now();
    const withAnnouncement = question !== undefined;
    // Rules that were confirmed a moment ago are good for one more request.
    const expects = question?.isOverdue ? question.expects : undefined;
    const how = { operation, withAnnouncement, expects, deadline, afterResponse, era };
    const counted = await regional.count({ placed, regions, ...how });
    const isAnswered = counted.regions.length > 0;
    const news = question && isAnswered ? rules.learn(question, counted.heard) : undefined;
    for (const region of counted.regions) beCounted(region, afterResponse);
    return { decision: judge(request, counted, askedAtMs), news, isStopped: counted.isStopped };
  };

  const judge = (
    request: DecisionRequest,
    { results, charged, unanswered, missing, failure }: Counted,
    askedAtMs: number,
  ): CountedDecision | DegradedDecision => {
    const { operation, afterResponse } = request;
    const allowed = denyingResults(results).length === 0;
    // A region that denies is not overruled by one that cannot be asked.
    if (allowed && missing.length > 0) {
      const decision = degraded(request, { reason: failure ?? 'unavailable', checks: missing, unanswered });
      if (!decision.allowed) afterResponse(giveBack(charged, onError));
      return { ...decision, counted: charged };
    }
    const nowMs = results[0]?.outcome.nowMs ?? askedAtMs;
    if (!allowed && operation === 'take' && missing.length > 0)
      afterResponse(releaseUnanswered({ checks: missing, unanswered }));
    return { kind: 'counted', allowed, nowMs, results, unanswered, failedOver: failure, ...UNKNOWN };
  };

  const countShadow = async (request: DecisionRequest, placed: readonly PlacedCheck[]) => {
    const { regions, afterResponse, onShadow } = request;
    const deadline = createDeadline(SHADOW_MS, now);
    const how = { operation: 'take', withAnnouncement: false, era: snapshots.announced() } as const;
    const counted = await regional.count({ placed, regions, deadline, afterResponse, ...how });
    onShadow?.(counted.results);
  };

  /** No region has counted it. */
  const degraded = (
    { regions, operation }: DecisionRequest,
    {
      reason,
      checks,
      unanswered = [],
    }: Pick<DegradedDecision, 'reason' | 'checks'> & Partial<DegradedDecision>,
  ): DegradedDecision =>
    operation === 'take'
      ? local.decide({
          reason,
          checks,
          unanswered,
          isolates: regions[0].census.count(),
          regions: regions.length,
        })
      : { kind: 'degraded', allowed: false, fallback: 'closed', reason, unanswered: [] };

  /** Now and then, so that isolates know how many they are. */
  const beCounted = ({ census, censusBoard }: LimiterRegion, afterResponse: AfterResponse) => {
    if (!census.isDue(now())) return;
    ownId ??= options.isolateId();
    const signal = AbortSignal.timeout(deadlineMs);
    // What does not work out is tried again in a minute; meanwhile the last number stands.
    afterResponse(censusBoard.present(ownId, signal).then(census.tell, () => {}));
  };

  /**
   * By the rules at hand; and once more if they turn out to be outdated. What the first pass has charged is given back
   * before the second one counts. If that takes too long, it counts all the same: at worst, its own first charge denies
   * the request. If that is lost, the request has been charged twice until its windows end.
   */
  const decide = async (
    request: DecisionRequest,
    snapshot: Snapshot,
    deadline: Deadline,
  ): Promise<Passed> => {
    const pass = { request, snapshot, deadline, question: snapshots.question() };
    const first = await decideBy(pass);
    const isReplaced = first.news !== undefined && (await rules.follow(first.news, pass));
    if (!isReplaced && !first.isStopped) return first;
    if (request.operation === 'take') {
      regional.unsettle(resultsOf(first.decision).map(({ check }) => check));
      const undone = undo(first.decision);
      request.afterResponse(undone);
      await waitHalf(deadline, undone);
    }
    return decideBy({ request, deadline, snapshot: snapshots.current() ?? snapshot });
  };

  /** All but what a denial has left: a block goes on, and a denied request that counts stays counted. */
  const undo = (decision: Decision) => createCharges({ decision, onError }).undo();

  const decideInTime = async (request: DecisionRequest): Promise<Decision> => {
    const snapshot = snapshots.current() ?? (await rules.start(request.regions));
    if (!snapshot) return degraded(request, { reason: 'no-rules' });
    const startedAtMs = now();
    const { decision, shadow } = await decide(request, snapshot, createDeadline(deadlineMs, now));
    if (decision.allowed && shadow.length > 0) request.afterResponse(countShadow(request, shadow));
    return { ...decision, isStale: !snapshots.isConfirmed(startedAtMs) };
  };

  return createGuard({ decide: decideInTime, degraded, onBug });
}

/** Filled in by whoever knows the rules. */
const UNKNOWN = { rulesVersion: '', isStale: false };
/** Nobody waits for shadow rules. */
const SHADOW_MS = 5_000;

type Results = readonly CheckResult<RuleCheck>[];
type Unanswered = Pick<DegradedDecision, 'checks' | 'unanswered'>;

/** What did not answer may hold a lease. */
function releaseUnanswered({ checks, unanswered }: Unanswered): Promise<void> {
  const decision = { kind: 'degraded', allowed: false, fallback: 'closed', reason: 'timeout' } as const;
  const onError = () => {};
  return createCharges({ decision: { ...decision, checks, unanswered }, onError }).release();
}
