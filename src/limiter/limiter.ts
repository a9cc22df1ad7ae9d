// Decides a request: by rules that are confirmed to be in force, mostly with one call to the counters of one region,
// under one deadline. A denial that is known is not asked for again. If no region answers, this isolate decides for itself.
import type { AfterResponse } from '../core/caller.ts';
import { CounterStoreError } from '../core/counter-store.ts';
import {
  type CheckResult,
  type CountedDecision,
  type Decision,
  type DegradedDecision,
  denyingResults,
} from '../core/decision.ts';
import type { Plan, RuleCheck, Unverified } from '../core/plan.ts';
import type { SharesByRegion } from '../core/rule.ts';
import type { Snapshot } from '../core/snapshot.ts';
import type { Question, SnapshotSource } from '../core/snapshot-source.ts';
import { createBorrowing } from './borrowing.ts';
import { createCharges, hasSequelOf } from './charges.ts';
import { createDeadline, type Deadline } from './deadline.ts';
import { createGuard } from './guard.ts';
import { createKnownDenials } from './known-denials.ts';
import { createLocalLimiter } from './local-limiter.ts';
import { checkAt, createPlacing, type PlacedCheck, regionOf } from './placed-checks.ts';
import { askRegions, type LimiterRegion, type Regions } from './region-ladder.ts';
import { createRegionalCount, giveBack, type News } from './regional-count.ts';

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` only looks: nothing is charged, and nothing is decided without counters. */
  readonly operation: 'take' | 'peek';
  /** What the request is up against; asked again if the rules turn out to have changed. */
  readonly plan: (snapshot: Snapshot, deadline: Deadline) => Promise<Plan | Unverified>;
  readonly afterResponse: AfterResponse;
  /** What shadow rules would have done; told later, where there are several regions. */
  readonly onShadow?: ((results: readonly CheckResult<RuleCheck>[]) => void) | undefined;
}

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

/** What was heard, without a check. */
type Heard = Pick<News, 'kind' | 'announced'> & Partial<News>;

/** One pass over a request, by one set of rules. */
interface Pass {
  readonly request: DecisionRequest;
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  /** Asked, if there is one, in the call to Redis that is made anyway. */
  readonly question?: Question | undefined;
}

export function createLimiter(options: LimiterOptions): Limiter {
  const { snapshots, deadlineMs, capPerSecond, now, onError, onBug } = options;
  const denials = createKnownDenials();
  const placing = createPlacing(options.shares, now);
  const countInRegions = createRegionalCount({ now, borrowing: createBorrowing({ denials, now }), onError });
  const local = createLocalLimiter({ now, capPerSecond });
  let ownId: string | undefined;

  const decideBy = async (pass: Pass): Promise<Decision | Heard> => {
    const { request, snapshot, question } = pass;
    const plan = await request.plan(snapshot, pass.deadline);
    const by = { rulesVersion: snapshot.version, isStale: false };
    if (plan.kind === 'checks' && plan.checks.length > 0) {
      const { placed, shadow } = placeAll(pass, plan.checks);
      const known = knownDenial(request, placed);
      if (!known) {
        const answer = await count(pass, placed);
        if (answer.kind === 'news') return answer;
        if (answer.allowed && shadow.length > 0) request.afterResponse(countShadow(pass, shadow));
        return { ...answer, ...by };
      }
      const news = question && (await hear(pass, question));
      return news ?? { kind: 'counted', allowed: false, unanswered: [], ...known, ...by };
    }
    const news = question && (await hear(pass, question));
    if (news) return news;
    if (plan.kind === 'checks') return { kind: 'unlimited', allowed: true, ...by };
    if (plan.kind === 'unverified') return { ...plan, allowed: false, ...by };
    return { kind: 'listed', list: plan.list, allowed: plan.list === 'allow', ...by };
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

  /** By the region that would be asked, or by one nearer that cannot be. */
  const knownDenial = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) => {
    if (operation !== 'take') return undefined;
    for (const region of regions) {
      const checks = placed.flatMap((one) => checkFrom(one, region, regions) ?? []);
      const known = denials.find(region.name, checks, now(), snapshots.announced());
      if (known || region.breaker.state(now()) === 'closed') return known;
    }
    return undefined;
  };

  const count = async (
    pass: Pass,
    placed: readonly PlacedCheck[],
  ): Promise<CountedDecision | DegradedDecision | News> => {
    const { request, deadline, question } = pass;
    const { regions, operation, afterResponse } = request;
    // All rules may be shadows.
    if (placed.length === 0)
      return { kind: 'counted', allowed: true, nowMs: now(), results: [], unanswered: [], ...UNKNOWN };
    const era = snapshots.announced();
    const askedAtMs = now();
    const expects = question?.expects;
    const counted = await countInRegions({
      placed,
      regions,
      operation,
      expects,
      deadline,
      afterResponse,
      era,
    });
    if (counted.kind === 'news') return counted;
    const { results, charged, unanswered, missing, failure } = counted;
    if (question && counted.regions.length > 0) snapshots.confirm(question);
    for (const region of counted.regions) beCounted(region, afterResponse);
    const allowed = denyingResults(results).length === 0;
    // A region that denies is not overruled by one that cannot be asked.
    if (allowed && missing.length > 0) {
      const decision = degraded(request, { reason: failure ?? 'unavailable', checks: missing, unanswered });
      if (!decision.allowed) afterResponse(giveBack(charged, onError));
      return { ...decision, counted: charged };
    }
    const nowMs = results[0]?.outcome.nowMs ?? askedAtMs;
    if (!allowed && operation === 'take') {
      if (missing.length > 0) afterResponse(releaseUnanswered({ checks: missing, unanswered }));
      const clusters = new Set(counted.regions.filter(({ isCluster }) => isCluster).map(({ name }) => name));
      const lasting = results.filter(({ check, isFinal }) => isFinal && !clusters.has(check.region ?? ''));
      denials.remember(regions[0].name, { nowMs, results: lasting }, askedAtMs, era);
    }
    return { kind: 'counted', allowed, nowMs, results, unanswered, failedOver: failure, ...UNKNOWN };
  };

  const countShadow = async ({ request }: Pass, placed: readonly PlacedCheck[]) => {
    const { regions, afterResponse, onShadow } = request;
    const deadline = createDeadline(SHADOW_MS, now);
    const how = { operation: 'take', expects: undefined, era: snapshots.announced() } as const;
    const counted = await countInRegions({ placed, regions, deadline, afterResponse, ...how });
    if (counted.kind === 'counted') onShadow?.(counted.results);
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

  const readAnnouncement = (regions: Regions, deadline: Deadline) =>
    askRegions({ regions, deadline, now, ask: ({ board }, signal) => board.read(signal) });

  /** The first rules of this isolate. */
  const start = (regions: Regions) =>
    snapshots.start({
      async read() {
        const asked = await readAnnouncement(regions, createDeadline(deadlineMs, now));
        if (asked.kind === 'answered') return asked.answer;
        throw new CounterStoreError('unavailable', 'no region answers');
      },
    });

  /** No check is made: the announcement is read by itself, and waited for only if it must be known. */
  const hear = async ({ request, deadline }: Pass, question: Question) => {
    const { regions, afterResponse } = request;
    const listen = async (within: Deadline): Promise<Heard | undefined> => {
      const asked = await readAnnouncement(regions, within);
      if (asked.kind === 'unanswered') snapshots.fail();
      else if (asked.answer === undefined || asked.answer === question.expects) snapshots.confirm(question);
      else return { kind: 'news', announced: asked.answer };
      return undefined;
    };
    if (question.isOverdue) return listen(deadline);
    const heard = listen(createDeadline(deadlineMs, now));
    afterResponse(heard.then((news) => news && snapshots.load(news.announced)));
    return undefined;
  };

  const decide = async (
    request: DecisionRequest,
    snapshot: Snapshot,
    deadline: Deadline,
  ): Promise<Decision> => {
    const question = snapshots.question();
    const first = await decideBy({ request, snapshot, deadline, question });
    if (first.kind !== 'news') return first;
    // Rules that were confirmed a moment ago are good for one more request.
    const loading = snapshots.load(first.announced);
    request.afterResponse(loading);
    // Leases have other ids in the second pass.
    request.afterResponse(releaseUnanswered(first));
    if (question?.isOverdue) {
      await within(deadline.remainingMs() / 2, loading);
      // What takes longer is not waited for by everybody.
      if (!snapshots.isConfirmed(now())) snapshots.fail();
    }
    const second = await decideBy({ request, snapshot: snapshots.current() ?? snapshot, deadline });
    return second.kind === 'news'
      ? degraded(request, { checks: second.checks, reason: 'bad-reply' })
      : second;
  };

  const decideInTime = async (request: DecisionRequest): Promise<Decision> => {
    const snapshot = snapshots.current() ?? (await start(request.regions));
    if (!snapshot) return degraded(request, { reason: 'no-rules' });
    const startedAtMs = now();
    const decision = await decide(request, snapshot, createDeadline(deadlineMs, now));
    return { ...decision, isStale: !snapshots.isConfirmed(startedAtMs) };
  };

  return createGuard({ decide: decideInTime, degraded, onBug });
}

/** Filled in by whoever knows the rules. */
const UNKNOWN = { rulesVersion: '', isStale: false };
/** Nobody waits for shadow rules. */
const SHADOW_MS = 5_000;

/** As it is counted if that region is asked first. */
const checkFrom = (placed: PlacedCheck, region: LimiterRegion, regions: Regions) =>
  checkAt(placed, (placed.parts.has(region.name) ? region : regionOf(placed, regions))?.name ?? '');

/** What did not answer may hold a lease. */
function releaseUnanswered({ checks, unanswered = [] }: Partial<News>): Promise<void> {
  const decision = { kind: 'degraded', allowed: false, fallback: 'closed', reason: 'timeout' } as const;
  const onError = () => {};
  return createCharges({ decision: { ...decision, checks, unanswered }, onError }).release();
}

/** Waits no longer. */
const within = (ms: number, work: Promise<unknown>): Promise<unknown> =>
  Promise.race([work, new Promise((resolve) => setTimeout(resolve, ms))]);
