// Decides a request: by rules that are confirmed to be in force, with one call to the counters of one region, under
// a deadline. When there is no answer in time the request goes on (fail-open), and the decision says why.
import type { AnnouncementBoard } from '../core/announcement.ts';
import type { AfterResponse } from '../core/caller.ts';
import type { Outcome } from '../core/check.ts';
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import { type Decision, type DegradedReason, denyingResults } from '../core/decision.ts';
import type { Plan, RuleCheck, Unverified } from '../core/plan.ts';
import type { Snapshot } from '../core/snapshot.ts';
import type { Question, SnapshotSource } from '../core/snapshot-source.ts';

/** What a region has for the limiter. */
export interface LimiterRegion {
  readonly store: CounterStore;
  readonly board: AnnouncementBoard;
}

export interface DecisionRequest {
  readonly region: LimiterRegion;
  /** What the request is up against; asked again if the rules turn out to have changed. */
  readonly plan: (snapshot: Snapshot) => Promise<Plan | Unverified>;
  readonly afterResponse: AfterResponse;
}

export interface Limiter {
  decide(request: DecisionRequest): Promise<Decision>;
}

export interface LimiterOptions {
  readonly snapshots: SnapshotSource;
  /** For the whole decision, the retry after a lost script cache included. */
  readonly deadlineMs: number;
  readonly now: () => number;
}

/** Instead of a decision: other rules are in force, and nothing has been charged. */
interface News {
  readonly kind: 'news';
  readonly announced: string;
}

export function createLimiter({ snapshots, deadlineMs, now }: LimiterOptions): Limiter {
  /** Asks the question, if there is one, in the call to Redis that is made anyway. */
  const decideBy = async (
    snapshot: Snapshot,
    request: DecisionRequest,
    question?: Question,
  ): Promise<Decision | News> => {
    const plan = await request.plan(snapshot);
    const by = { rulesVersion: snapshot.version, isStale: false };
    if (plan.kind === 'checks' && plan.checks.length > 0) {
      const answer = await count(request.region.store, plan.checks, question);
      if (question && answer.kind === 'counted') snapshots.confirm(question);
      return answer.kind === 'news' ? answer : { ...answer, ...by };
    }
    const news = question && (await hear(request, question));
    if (news) return news;
    if (plan.kind === 'checks') return { kind: 'unlimited', allowed: true, ...by };
    if (plan.kind === 'unverified') return { ...plan, allowed: false, ...by };
    return { kind: 'listed', list: plan.list, allowed: plan.list === 'allow', ...by };
  };

  const count = async (store: CounterStore, checks: readonly RuleCheck[], question?: Question) => {
    try {
      const call = { operation: 'take', checks, expects: question?.expects } as const;
      const { nowMs, outcomes, news } = await store.run(call, AbortSignal.timeout(deadlineMs));
      if (news !== undefined) return { kind: 'news', announced: news } as const;
      const results = checks.map((check, i) => ({ check, outcome: must(outcomes[i]) }));
      return { kind: 'counted', allowed: denyingResults(results).length === 0, nowMs, results } as const;
    } catch (error) {
      const allowed = !checks.some(({ rule }) => rule.onUnavailable === 'closed');
      return { kind: 'degraded', allowed, checks, reason: reasonOf(error) } as const;
    }
  };

  /** No check is made: the announcement is read by itself, and waited for only if it must be known. */
  const hear = async ({ region, afterResponse }: DecisionRequest, question: Question) => {
    const listen = async () => {
      const announced = await region.board.read(AbortSignal.timeout(deadlineMs)).catch(() => null);
      if (announced === undefined || announced === question.expects) snapshots.confirm(question);
      else if (announced === null) snapshots.fail();
      else return { kind: 'news', announced } as const;
      return undefined;
    };
    if (question.isOverdue) return listen();
    afterResponse(listen().then((news) => news && snapshots.load(news.announced)));
    return undefined;
  };

  const decide = async (request: DecisionRequest, snapshot: Snapshot): Promise<Decision> => {
    const question = snapshots.question();
    const first = await decideBy(snapshot, request, question);
    if (first.kind !== 'news') return first;
    // Rules that were confirmed a moment ago are good for one more request.
    const loading = snapshots.load(first.announced);
    request.afterResponse(loading);
    if (question?.isOverdue) await within(deadlineMs, loading);
    const second = await decideBy(snapshots.current() ?? snapshot, request);
    return second.kind === 'news' ? { kind: 'degraded', allowed: true, reason: 'bad-reply' } : second;
  };

  return {
    async decide(request) {
      try {
        const snapshot = snapshots.current() ?? (await snapshots.start(request.region.board));
        if (!snapshot) return { kind: 'degraded', allowed: true, reason: 'no-rules' };
        const startedAtMs = now();
        const decision = await decide(request, snapshot);
        return { ...decision, isStale: !snapshots.isConfirmed(startedAtMs) };
      } catch (error) {
        return { kind: 'degraded', allowed: true, reason: reasonOf(error) };
      }
    },
  };
}

/** Waits no longer. */
const within = (ms: number, work: Promise<unknown>): Promise<unknown> =>
  Promise.race([work, new Promise((resolve) => setTimeout(resolve, ms))]);

/** Whatever went wrong, a bug included: no request fails because of the limiter. */
function reasonOf(error: unknown): DegradedReason {
  return error instanceof CounterStoreError ? error.failure : 'unavailable';
}

function must(outcome: Outcome | undefined): Outcome {
  if (outcome === undefined) throw new Error('the store answered for fewer checks than it was given');
  return outcome;
}
