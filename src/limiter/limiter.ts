// Decides a request in rounds. Each round goes by one set of rules: mostly one call to the counters of the nearest region,
// under one deadline. If the rules turn out to be outdated, there is one more round. A denial that is known is not asked
// for again. If no region answers, this isolate decides for itself.

import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  type DegradedDecision,
  denyingResults,
} from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { Plan, RuleCheck, Unverified } from '../core/matching/plan.ts';
import type { SharesByRegion } from '../core/matching/rule.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { Probe, SnapshotSource } from '../core/ports/snapshot-source.ts';
import { createCessions } from './cessions.ts';
import { createDeadline, type Deadline, waitHalf } from './deadline.ts';
import { createKnownDenials } from './known-denials.ts';
import { createLeaseBook, type Leased } from './lease-book.ts';
import { createLeasing } from './leasing.ts';
import { createLedger, type Ledger, needsFollowUp } from './ledger.ts';
import { createLocalLimiter, type Uncounted } from './local-limiter.ts';
import { createPlacing, type PlacedCheck } from './placed-checks.ts';
import { type LimiterRegion, type Regions, reasonOf } from './region-ladder.ts';
import { type Counted, createRegionalCount } from './regional-count.ts';
import { createRulesInForce } from './rules-in-force.ts';

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` only looks: nothing is charged, and nothing is decided without counters. */
  readonly operation: 'take' | 'peek';
  /** Has all charges of an admitted request. Those of a denied one are given back. */
  readonly ledger: Ledger;
  readonly afterResponse: AfterResponse;
}

/** What the request is up against, or why it is not even asked about. */
export type RequestPlan = Plan | Unverified;

/** One pass over a request, by one set of rules. */
export interface Round {
  readonly kind: 'round';
  readonly request: DecisionRequest;
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  readonly startedAtMs: number;
  /** Asked, if there is one, in the call to Redis that is made anyway. */
  readonly probe?: Probe | undefined;
}

export interface Decided {
  readonly kind: 'decided';
  readonly decision: Decision;
}

export type Step = Round | Decided;

export interface Limiter {
  /** The first round; or the decision, if this isolate has no rules and gets none. */
  begin(request: DecisionRequest): Promise<Step>;
  /** The decision; or one more round, if the rules of this one turn out to be outdated. It never throws. */
  decide(round: Round, plan: RequestPlan): Promise<Step>;
  /** Whether memory tells that one of these checks denies the request. */
  isKnownDenied(round: Round, checks: readonly RuleCheck[]): boolean;
  /** What this isolate has charged in advance and not used yet. */
  leased(): Leased;
  /** Of one counter, in units; undefined if its rule is never leased. */
  leasedOf(check: RuleCheck): number | undefined;
  /** Something broke before there was a plan: that is a mistake in Weir, and the request goes on. */
  recover(request: DecisionRequest, error: unknown): Decision;
}

export interface LimiterOptions {
  readonly snapshots: SnapshotSource;
  /** For the whole decision: who calls, all regions, and the retry after a lost script cache. */
  readonly deadlineMs: number;
  /** Of the regions, as configured: used for snapshots that predate regional splits. */
  readonly shares: SharesByRegion;
  /** What shadow rules would have done; told later, where there are several regions. */
  readonly onShadow: (results: readonly CheckResult<RuleCheck>[], region: string) => void;
  /** A mistake in Weir itself. The request goes on as its rules say. */
  readonly onBug: (error: unknown) => void;
  /** See local-limiter.ts. */
  readonly capPerSecond: number;
  /** Asked for once: this isolate is counted in by it. */
  readonly isolateId: () => string;
  readonly now: () => number;
}

/** Nobody waits for shadow rules. */
const SHADOW_MS = 5_000;

export function createLimiter(options: LimiterOptions): Limiter {
  const { snapshots, deadlineMs, capPerSecond, now, onBug } = options;
  const rules = createRulesInForce({ snapshots, deadlineMs, now });
  const placing = createPlacing(options.shares, now);
  const cessions = createCessions(now);
  const leases = createLeaseBook(now);
  const regional = createRegionalCount({ now, denials: createKnownDenials(), cessions, leases });
  const leasing = createLeasing({ now, book: leases, cessions, era: () => snapshots.announced() });
  const local = createLocalLimiter({ now, capPerSecond });
  let ownId: string | undefined;

  const begin: Limiter['begin'] = async (asked) => {
    // What goes wrong after the response is told, too.
    const afterResponse: AfterResponse = (work) => asked.afterResponse(work.catch(onBug));
    const { regions, operation, ledger } = asked;
    const request = { regions, operation, ledger, afterResponse };
    try {
      const snapshot = snapshots.current() ?? (await rules.start(request.regions));
      if (!snapshot) return decided(request, degraded(request, { reason: 'no-rules' }));
      const deadline = createDeadline(deadlineMs, now);
      return {
        kind: 'round',
        request,
        snapshot,
        deadline,
        startedAtMs: now(),
        probe: snapshots.probe(),
      };
    } catch (error) {
      return decided(request, recover(request, error));
    }
  };

  const decide: Limiter['decide'] = async (round, plan) => {
    const { request, probe } = round;
    const checks = plan.kind === 'checks' ? plan.checks : [];
    try {
      const { enforced, shadow } = placeAll(round, checks);
      const leased = leasing.find(enforced, request);
      const open = leased.length === 0 ? enforced : enforced.filter((one) => !leased.includes(one));
      const denial = knownDenial(request, open);
      if (open.length === 0 || denial) {
        const news = await rules.hear(round);
        if (news && (await rules.follow(news, round))) return await again(round);
        if (leased.length === 0 || denial) return finish(round, uncounted(plan, denial), shadow);
      }
      const used = leasing.use(leased, request);
      if (used && open.length === 0) return finish(round, judge(round, used), shadow);
      const counted = await count(round, used ? open : enforced);
      const news = probe && counted.regions.length > 0 ? rules.learn(probe, counted.heard) : undefined;
      const isReplaced = news !== undefined && (await rules.follow(news, round));
      if (isReplaced || counted.isStopped) return await again(round);
      return finish(round, judge(round, used, counted), shadow);
    } catch (error) {
      return decided(request, recover(request, error, checks));
    }
  };

  /**
   * Where there are several regions, shadow rules are counted after the response: nobody waits for them. Rules whose
   * charges are changed later are counted now, because the ledger needs the charge.
   */
  const placeAll = ({ request, snapshot }: Round, checks: readonly RuleCheck[]) => {
    const { regions, operation } = request;
    const place = (some: readonly RuleCheck[]) => placing.place(some, regions, snapshot.split);
    const mayWait = regions.length > 1 && operation === 'take';
    const isLater = (check: RuleCheck) => check.log === true && mayWait && !needsFollowUp(check);
    if (!checks.some(isLater)) return { enforced: place(checks), shadow: [] };
    return {
      enforced: place(checks.filter((check) => !isLater(check))),
      shadow: place(checks.filter(isLater)),
    };
  };

  /** By memory alone. */
  const knownDenial = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) =>
    operation === 'take' && placed.length > 0
      ? regional.recall({ placed, regions, era: snapshots.announced() })
      : undefined;

  /** What takes no call to the counters. */
  const uncounted = (plan: RequestPlan, denial: Results | undefined): Unstamped => {
    if (denial)
      return { kind: 'counted', allowed: false, nowMs: denial[0]?.outcome.nowMs ?? now(), results: denial };
    if (plan.kind === 'unverified') return { ...plan, allowed: false };
    if (plan.kind === 'listed') return { ...plan, allowed: plan.list === 'allow' };
    if (plan.checks.length === 0) return { kind: 'unlimited', allowed: true };
    // All of its rules are shadows.
    return { kind: 'counted', allowed: true, nowMs: now(), results: [] };
  };

  const count = async ({ request, deadline, probe }: Round, placed: readonly PlacedCheck[]) => {
    const { regions, operation, ledger, afterResponse } = request;
    const counted = await regional.count({
      regions,
      operation,
      ledger,
      afterResponse,
      placed,
      deadline,
      era: snapshots.announced(),
      withAnnouncement: probe !== undefined,
      // Rules that were confirmed a moment ago are good for one more request.
      expected: probe?.isOverdue ? probe.expected : undefined,
    });
    for (const region of counted.regions) beCounted(region, afterResponse);
    return counted;
  };

  /** By what was used from memory, and what regions have counted. */
  const judge = ({ request, startedAtMs }: Round, used: Results = [], counted?: Counted): Unstamped => {
    const { results: others = [], missing = [], failure } = counted ?? {};
    const results = used.length === 0 ? others : [...used, ...others];
    const allowed = denyingResults(results).length === 0;
    // A region that denies is not overruled by one that cannot be asked.
    if (allowed && missing.length > 0)
      return degraded(request, { reason: failure ?? 'unavailable', checks: missing });
    const nowMs = results[0]?.outcome.nowMs ?? startedAtMs;
    return { kind: 'counted', allowed, nowMs, results, failedOver: failure };
  };

  const finish = (round: Round, decision: Unstamped, shadow: readonly PlacedCheck[]): Step => {
    const { request, snapshot, startedAtMs } = round;
    if (decision.allowed && shadow.length > 0) request.afterResponse(countShadow(request, shadow));
    const isStale = !snapshots.isConfirmed(startedAtMs);
    return decided(request, stamped(decision, { rulesVersion: snapshot.version, isStale }));
  };

  const countShadow = async ({ regions, afterResponse }: DecisionRequest, placed: readonly PlacedCheck[]) => {
    const { results } = await regional.count({
      regions,
      afterResponse,
      placed,
      operation: 'take',
      withAnnouncement: false,
      era: snapshots.announced(),
      deadline: createDeadline(SHADOW_MS, now),
      // Nothing becomes of these charges later.
      ledger: createLedger(onBug),
    });
    options.onShadow(results, regions[0].name);
  };

  /**
   * What this round has charged is given back before the next one counts. If that takes too long, the next one counts
   * all the same: at worst, its own first charge denies the request. If a refund is lost, the request has been charged
   * twice until its windows end. What a denial has left stays: a block goes on, a denial that counts stays counted.
   */
  const again = async ({ request, snapshot, deadline, startedAtMs }: Round): Promise<Round> => {
    if (!request.ledger.isEmpty) {
      const undone = regional.undo(request.ledger);
      request.afterResponse(undone);
      await waitHalf(deadline, undone, undefined);
    }
    return { kind: 'round', request, deadline, startedAtMs, snapshot: snapshots.current() ?? snapshot };
  };

  /** No region has counted it. */
  const degraded = (
    { regions, operation, ledger }: DecisionRequest,
    what: Pick<Uncounted, 'reason' | 'checks'>,
  ): DegradedDecision =>
    operation === 'take'
      ? local.decide({ ...what, ledger, isolates: regions[0].census.count(), regions: regions.length })
      : { kind: 'degraded', allowed: false, fallback: 'closed', reason: what.reason };

  /** As the rules say, if they are known. If not even they can be asked, the request goes on. */
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

  /** A denied request keeps no charge. Whether regions that are out are back is found out after the response. */
  const decided = ({ regions, ledger, afterResponse }: DecisionRequest, decision: Decision): Decided => {
    if (!decision.allowed && !ledger.isEmpty) afterResponse(regional.undo(ledger));
    for (const { watch } of regions) watch.look(afterResponse);
    return { kind: 'decided', decision };
  };

  /** Now and then, so that isolates know how many they are. */
  const beCounted = ({ census, censusBoard }: LimiterRegion, afterResponse: AfterResponse) => {
    if (!census.isDue(now())) return;
    ownId ??= options.isolateId();
    const signal = AbortSignal.timeout(deadlineMs);
    // What does not work out is tried again in a minute; meanwhile the last number stands.
    afterResponse(censusBoard.present(ownId, signal).then(census.tell, () => {}));
  };

  return {
    begin,
    decide,
    recover: (request, error) => decided(request, recover(request, error)).decision,
    leased: leases.total,
    leasedOf: leases.unitsOf,
    isKnownDenied: (round, checks) =>
      knownDenial(round.request, placeAll(round, checks).enforced) !== undefined,
  };
}

/** Most decisions are counted ones. */
const stamped = (decision: Unstamped, { rulesVersion, isStale }: Stamp): Decision => {
  if (decision.kind !== 'counted') return { ...decision, rulesVersion, isStale };
  const { kind, allowed, nowMs, results, failedOver } = decision;
  return { kind, allowed, nowMs, results, failedOver, rulesVersion, isStale };
};

type Stamp = Pick<CountedDecision, 'rulesVersion' | 'isStale'>;
type Results = readonly CheckResult<RuleCheck>[];
/** Without the rules that it was made by. */
type Unstamped = {
  [K in Decision['kind']]: Omit<Extract<Decision, { kind: K }>, 'rulesVersion' | 'isStale'>;
}[Decision['kind']];
