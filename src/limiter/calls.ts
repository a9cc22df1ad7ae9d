// Drives the machine of count.ts: makes the calls that it asks for, and feeds their events back until it concludes.

import type { Answer } from '../core/counting/check.ts';
import { CounterStoreError } from '../core/ports/region.ts';
import {
  BEGUN,
  type Conclusion,
  Count,
  type CountEvent,
  type CountMemory,
  type CountRequest,
  type CountStep,
  type PartCall,
  type RegionCall,
  type RegionCountCall,
} from './count.ts';
import { keepAlive } from './deadline.ts';
import { needsFollowUp } from './ledger.ts';
import { noteAnswer, noteFailure } from './region.ts';
import type { Shortfall } from './verdicts.ts';

type MaybePromise<T> = T | Promise<T>;

/** Counts the checks of a request. A value if no region can be called. */
export type CountChecks = (request: CountRequest) => MaybePromise<Conclusion>;

export function createCalls(memory: CountMemory): CountChecks {
  const { now, transfers } = memory;

  /** Resolves with the conclusion, or with undefined if another call of the same step is still open. */
  const make = async (count: Count, call: RegionCall): Promise<Conclusion | undefined> => {
    let event: CountEvent;
    try {
      event = call.kind === 'count' ? toCounted(call, await send(count, call)) : await askForPart(call);
    } catch (error) {
      event = toFailed(count, call, error);
    }
    return follow(count, count.next(event));
  };

  const makeAll = async (count: Count, calls: readonly RegionCall[]): Promise<Conclusion | undefined> => {
    const ends = await Promise.all(calls.map((call) => make(count, call)));
    return ends.find((end) => end !== undefined);
  };

  const follow = (count: Count, step: CountStep): MaybePromise<Conclusion | undefined> => {
    if (step.kind === 'wait') return undefined;
    if (step.kind === 'concluded') return followUp(count.request, step);
    const { calls, isFirst } = step;
    const first = calls[0] as RegionCall;
    const making = calls.length === 1 ? make(count, first) : makeAll(count, calls);
    const isDroppable = calls.length === 1 && isFirst && mayBeDropped(first, now());
    if (!isDroppable) keepAlive(making, count.request);
    return making;
  };

  const signalOf = ({ givenMs }: RegionCall) => AbortSignal.timeout(Math.ceil(givenMs));

  const send = ({ request }: Count, call: RegionCountCall): Promise<Answer> => {
    const { region, checks, withAnnouncement } = call;
    return region.store[request.operation]({ checks, withAnnouncement }, signalOf(call));
  };

  const toCounted = (call: RegionCountCall, answer: Answer): CountEvent => {
    const { length } = answer.outcomes;
    if (length !== call.checks.length)
      throw new CounterStoreError('bad-reply', `expected ${call.checks.length} outcomes, got ${length}`);
    const nowMs = now();
    noteAnswer(call, nowMs);
    return { kind: 'counted', call, answer, tookMs: nowMs - call.sentAtMs };
  };

  const askForPart = async (call: PartCall): Promise<CountEvent> => {
    await transfers.ask(call.transfer, signalOf(call));
    noteAnswer(call, now());
    return { kind: 'transferred', call };
  };

  const toFailed = ({ request }: Count, call: RegionCall, error: unknown): CountEvent => {
    const failure = noteFailure(call, error, now());
    const [nearest, ...others] = request.regions;
    // Measures all far regions at once. Otherwise one request would have to fail for each far region.
    if (call.kind === 'count' && failure.reason === 'timeout' && call.region !== nearest)
      for (const { distance } of others) distance.measure(request.afterResponse);
    return { kind: 'failed', call, failure };
  };

  const followUp = ({ regions, afterResponse }: CountRequest, conclusion: Conclusion): Conclusion => {
    const { uses, shortfalls } = conclusion;
    for (const shortfall of shortfalls) afterResponse(settle(shortfall));
    if (uses.length > 0) transfers.follow(uses, regions, afterResponse);
    return conclusion;
  };

  return (request) => {
    const count = new Count(memory, request);
    // The first step ends when all of its calls have ended, and one of them has brought the conclusion.
    return follow(count, count.next(BEGUN)) as MaybePromise<Conclusion>;
  };
}

/** No request waits for this call. If it fails, Weir tries again after the next request. */
const CATCH_UP_MS = 5_000;

const settle = ({ region, check }: Shortfall): Promise<unknown> =>
  region.store.settle({ checks: [check] }, AbortSignal.timeout(CATCH_UP_MS)).catch(region.watch.note);

/**
 * Whether nothing is lost if the client leaves during the first call of its request. The region charges all or nothing,
 * and the charge stays, as if the client had left a moment later. But seats, turns and leases must be given back. And
 * the breaker must learn whether the region answers, even if no client waits for that.
 */
const mayBeDropped = (call: RegionCall, nowMs: number): boolean =>
  call.kind === 'count' &&
  call.region.breaker.isFresh(nowMs) &&
  call.checks.every((check) => !check.leaseUnits && !needsFollowUp(check));
