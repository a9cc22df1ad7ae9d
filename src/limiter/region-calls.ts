// Calls one region to count checks of a request, and writes the answer into the tally. `start` makes the call. Then
// `accept` and `hear` get the answer, or `fail` gets the error.

import { type Answer, type Outcome, outcomeWith, type TakeCheck } from '../core/counting/check.ts';
import type { DegradedReason } from '../core/decision.ts';
import { mapStable } from '../core/map-stable.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import { type CounterStore, CounterStoreError, type RulesPointer } from '../core/ports/region.ts';
import type { Breaker, Permit } from '../core/regions/breaker.ts';
import type { Census } from '../core/regions/census.ts';
import {
  asWhole,
  type CountRequest,
  isUnanswered,
  type Pending,
  setVerdict,
  type Turn,
  type Verdict,
} from './count.ts';
import type { LeaseBook } from './leases.ts';
import type { KnownDenials, Moment } from './memory.ts';
import { type Distance, LONGEST_MS, type RegionWatch, TIMEOUT_FACTOR } from './region-watch.ts';
import type { RegionAnnouncement } from './rules-in-force.ts';
import type { Transfers } from './transfers.ts';

// Calls a region if its breaker is closed. After the response, region-watch.ts finds out whether a failed region is
// back.

/** A region as the limiter sees it. */
export interface LimiterRegion {
  readonly name: string;
  /** The other regions, nearest to this one first. They stand in for this one in this order: see next-region.ts. */
  readonly neighbours: readonly string[];
  readonly store: CounterStore;
  readonly pointer: RulesPointer;
  readonly breaker: Breaker;
  readonly watch: RegionWatch;
  readonly distance: Distance;
  readonly census: Census;
  /** A cluster may take charges back within a call: see redis/counter-store.ts. */
  readonly isCluster: boolean;
}

/** Nearest first. */
export type Regions = readonly [LimiterRegion, ...LimiterRegion[]];

/** If a region had at least this part of the deadline, a timeout is its fault. */
export const FAIR_PART = 0.25;

export interface NoReply {
  readonly kind: 'unanswered';
  readonly reason: DegradedReason;
  /** The region got the call, so it may have charged the checks. */
  readonly isInDoubt: boolean;
  /** The region did not get the time that an answer takes. */
  readonly isTooLate?: boolean | undefined;
}

export type RegionReply<T> = NoReply | { readonly kind: 'answered'; readonly answer: T };

export interface RegionCallOptions<T> {
  readonly region: LimiterRegion;
  readonly ask: () => Promise<T>;
  readonly now: () => number;
  /** The region has enough time, so a timeout is its fault. */
  readonly isFair: boolean;
}

export async function askRegion<T>(asking: RegionCallOptions<T>): Promise<RegionReply<T>> {
  const { region, isFair, now, ask } = asking;
  const permit = region.breaker.enter();
  if (permit === undefined) return NOT_ASKED;
  const askedAtMs = now();
  try {
    const answer = await ask();
    noteAnswer(region, permit, askedAtMs, now());
    return { kind: 'answered', answer };
  } catch (error) {
    return noteFailure({ region, permit, isFair }, error, now());
  }
}

/** The breaker is not closed, so the region is not called. */
export const NOT_ASKED: NoReply = { kind: 'unanswered', isInDoubt: false, reason: 'breaker-open' };

/** The region has answered a call. */
export function noteAnswer(region: LimiterRegion, permit: Permit, askedAtMs: number, nowMs: number): void {
  region.breaker.succeed(permit, nowMs);
  region.distance.note(nowMs - askedAtMs);
}

interface Failed extends Pick<RegionCallOptions<unknown>, 'region' | 'isFair'> {
  readonly permit: Permit;
}

/** A call to the region has failed. */
export function noteFailure({ region, permit, isFair }: Failed, error: unknown, nowMs: number): NoReply {
  const reason = reasonOf(error);
  region.watch.note(error);
  const isTooLate = reason === 'timeout' && !isFair;
  if (reason === 'script-failed') region.breaker.succeed(permit, nowMs);
  else if (reason !== 'internal-error' && !isTooLate) region.breaker.fail(permit, nowMs);
  return { kind: 'unanswered', isInDoubt: true, isTooLate, reason };
}

/** Gives every error a reason, bugs included, because no request may fail because of the limiter. */
export const reasonOf = (error: unknown): DegradedReason =>
  error instanceof CounterStoreError ? error.failure : 'internal-error';

/** The answers of the regions so far. */
export interface Tally {
  readonly pending: readonly Pending[];
  /** The announcements of the regions. */
  readonly heard: RegionAnnouncement[];
  /** The regions that answered, each once. */
  readonly answered: LimiterRegion[];
  /** The first failure of a region, if any has failed. */
  failure: DegradedReason | undefined;
  /** Why the request waited longer for a region than it should have, although the region counts nothing or answered. */
  delayedBy: DegradedReason | undefined;
  /** Whether the next call also reads the announcement. */
  asksAnnouncement: boolean;
  /** How many calls the request has waited for. Calls made at once count as one. */
  round: number;
}

/** A call to one region that is under way. */
export interface RegionCall {
  readonly region: LimiterRegion;
  readonly turns: readonly Turn[];
  /** The checks as sent, with the units to lease. */
  readonly checks: readonly (RuleCheck & TakeCheck)[];
  readonly withAnnouncement: boolean;
  readonly permit: Permit;
  /** The region has enough time, so a timeout is its fault. */
  readonly isFair: boolean;
  /** An answer that takes longer delays the request. */
  readonly slowMs: number;
  readonly sentAtMs: number;
  readonly answering: Promise<Answer>;
}

export interface RegionCalls {
  /** Calls a region. Undefined if it cannot be called now. */
  start(
    region: LimiterRegion,
    turns: readonly Turn[],
    tally: Tally,
    request: CountRequest,
  ): RegionCall | undefined;
  /** Throws if the number of outcomes is wrong. The call then counts as failed. */
  accept(call: RegionCall, answer: Answer, tally: Tally): Answer;
  hear(call: RegionCall, answer: Answer, tally: Tally, request: CountRequest): void;
  fail(call: RegionCall, error: unknown, tally: Tally, request: CountRequest): void;
}

export interface RegionCallsOptions {
  readonly now: () => number;
  readonly transfers: Transfers;
  readonly denials: KnownDenials;
  readonly leases: LeaseBook;
  /** Whether a denial of this check may end before its retry time. */
  readonly isUnsettled: (check: RuleCheck) => boolean;
}

/** The least time for a near region that is asked after a far one, even if the far one has used up the time. */
const AGAIN_MS = 50;

export function createRegionCalls({
  now,
  transfers,
  denials,
  leases,
  isUnsettled,
}: RegionCallsOptions): RegionCalls {
  /** Whether there is another region that could count the check, or stand in, and has not been asked. */
  const hasOther = ({ verdicts }: Pending, { regions }: CountRequest) =>
    regions.some(({ name, breaker }, i) => i > 0 && !verdicts.has(name) && breaker.state(now()) === 'closed');

  /**
   * The first call to the nearest region leaves time for the next region. A far region gets the time that its distance
   * takes, and so does the nearest if it is asked after a far one. If the nearest region did not answer, a region of
   * unknown distance gets no more than the time that is left. A stand-in, or a region that is asked after a far one, gets
   * enough time, although a far owner may have used it up. Otherwise it would seem to be gone, too, and isolates would
   * not agree on the stand-in.
   */
  const givenMs = (region: LimiterRegion, turns: readonly Turn[], request: CountRequest, round: number) => {
    const [nearest] = request.regions;
    const { totalMs } = request.deadline;
    const leftMs = request.deadline.remainingMs();
    if (region === nearest && round === 0)
      return leftMs / (turns.some(({ ones: [one] }) => hasOther(one, request)) ? 2 : 1);
    const isPatient = turns.every(({ ones: [one] }) => !isUnanswered(one.verdicts.get(nearest.name)));
    const isAfterFar = region !== nearest && isPatient;
    const mustFit = isAfterFar || turns.some(({ check }) => isStandIn(check));
    const leastMs = mustFit ? totalMs * FAIR_PART : region === nearest ? AGAIN_MS : 0;
    return region.distance.fitMs(Math.max(leastMs, leftMs), isPatient);
  };

  /** The time that a region needs at most. A far region needs as much as its distance takes. */
  const fairMs = (region: LimiterRegion, { regions, deadline }: CountRequest) => {
    const knownMs = region === regions[0] ? undefined : region.distance.ms();
    return knownMs === undefined
      ? deadline.totalMs * FAIR_PART
      : Math.min(knownMs * TIMEOUT_FACTOR, LONGEST_MS);
  };

  /** An answer after this time is slow. Nobody can tell whether a region of unknown distance is slow or only far. */
  const slowMs = (region: LimiterRegion, fair: number, { regions, deadline }: CountRequest) =>
    region !== regions[0] && region.distance.ms() === undefined
      ? deadline.totalMs
      : Math.max(fair, deadline.totalMs * FAIR_PART);

  /** The check with units to lease, if it is time for a lease. */
  const leasing = ({ check, ones: [{ placed }] }: Turn, { regions }: CountRequest): RuleCheck & TakeCheck => {
    const leaseUnits = leases.claim(regions, placed, check);
    return leaseUnits > 0 ? { ...check, leaseUnits } : check;
  };

  /** Notes the answer for each check of the call. */
  const hearTurns = ({ turns, checks, sentAtMs }: RegionCall, answer: Answer, request: CountRequest) => {
    const { outcomes, nowMs } = answer;
    const passes = turns.every(({ check }, i) => {
      const outcome = outcomes[i];
      return outcome?.allowed || (check.isShadow && outcome?.transferredTo === undefined);
    });
    for (let i = 0; i < turns.length; i += 1) {
      const turn = turns[i] as Turn;
      if (checks[i]?.leaseUnits) leases.answered(turn.check);
      const told = outcomes[i];
      if (!told) continue;
      const outcome = outcomeWith(told, { nowMs: told.nowMs ?? nowMs });
      if (outcome.allowed) admit(turn, outcome, { nowMs, sentAtMs, passes }, request);
      else refuse(turn, outcome, { answeredAtMs: nowMs, sentAtMs }, request);
    }
  };

  const admit = (
    { region, check, ones }: Turn,
    outcome: Outcome,
    { nowMs, sentAtMs, passes }: Admitting,
    { operation, regions, ledger, announcement }: CountRequest,
  ) => {
    const isCharged = passes && operation === 'take';
    const whole = asWhole(ones[0], check, outcome);
    const chargedAtMs = outcome.nowMs ?? nowMs;
    // A stand-in leases nothing: its counter is of no use once the owner is back.
    const isOwn = check.id === ones[0].placed.check.id;
    // Also notes the lease that came with the charge. The result is the rest of the whole limit.
    const remaining =
      isCharged && region === regions[0] && isOwn
        ? leases.note({
            region,
            check,
            outcome,
            whole,
            sentAtMs,
            announcement,
            chargedAtMs,
            usedNow: check.cost,
          })
        : whole.remaining;
    const result = {
      check,
      outcome: remaining === whole.remaining ? whole : outcomeWith(whole, { remaining }),
    };
    for (const one of ones) {
      if (passes || operation === 'peek') one.admitted = { region, result, outcome };
      else one.seen = result;
    }
    if (isCharged) ledger.noteCharge(region.store, check, chargedAtMs);
  };

  const refuse = (
    turn: Turn,
    outcome: Outcome,
    { answeredAtMs, sentAtMs }: Pick<Moment, 'answeredAtMs'> & Pick<RegionCall, 'sentAtMs'>,
    { operation, regions, announcement }: CountRequest,
  ) => {
    const { region, check } = turn;
    const moment = { askedAtMs: sentAtMs, answeredAtMs, announcement };
    if (outcome.transferredTo !== undefined) return transfers.learn(check, region.name, outcome, moment);
    setVerdicts(turn, { outcome });
    if (operation !== 'take') return;
    if (region === regions[0]) leases.denied(check, outcome, outcome.nowMs ?? answeredAtMs);
    if (region.isCluster || isUnsettled(check)) return;
    denials.remember(region.name, check, outcome, moment);
  };

  /** While a rule moves, each placement has its own part in the region. */
  const setVerdicts = (
    { ones, region, check }: Turn,
    { outcome, isTooLate }: Pick<Verdict, 'outcome' | 'isTooLate'>,
  ) => {
    for (const one of ones) {
      const own = ones.length === 1 ? check : (transfers.checkAt(one.placed, region.name) ?? check);
      const known = one.verdicts.get(region.name)?.outcome;
      setVerdict(one, region.name, { check: own, outcome: outcome ?? known, isTooLate });
    }
  };

  const miss = (
    turns: readonly Turn[],
    { reason, isInDoubt, isTooLate }: NoReply,
    tally: Tally,
    request: CountRequest,
  ) => {
    const { operation, ledger, regions, afterResponse } = request;
    tally.failure ??= reason;
    for (const turn of turns) {
      setVerdicts(turn, { isTooLate });
      if (isInDoubt && operation === 'take') ledger.noteDoubt(turn.region.store, [turn.check]);
    }
    const isTooFar = isInDoubt && reason === 'timeout' && turns[0]?.region !== regions[0];
    // Measures all far regions at once. Otherwise one request would have to fail for each far region.
    if (isTooFar) for (const { distance } of regions.slice(1)) distance.measure(afterResponse);
  };

  const checksOf = (region: LimiterRegion, turns: readonly Turn[], request: CountRequest) => {
    const isLeasing = request.operation === 'take' && region === request.regions[0];
    return mapStable(turns, (turn) => (isLeasing ? leasing(turn, request) : turn.check));
  };

  return {
    start(region, turns, tally, request) {
      const ms = givenMs(region, turns, request, tally.round);
      const permit = ms > 0 ? region.breaker.enter() : undefined;
      if (permit === undefined) {
        miss(turns, ms > 0 ? NOT_ASKED : TOO_LATE, tally, request);
        return undefined;
      }
      const withAnnouncement = tally.asksAnnouncement;
      // One announcement is enough, so later calls do not read it.
      tally.asksAnnouncement = false;
      const checks = checksOf(region, turns, request);
      const fair = fairMs(region, request);
      const isFair = ms >= fair;
      const slow = slowMs(region, fair, request);
      const sentAtMs = now();
      const signal = AbortSignal.timeout(Math.ceil(ms));
      const answering = region.store[request.operation]({ checks, withAnnouncement }, signal);
      return { region, turns, checks, permit, isFair, slowMs: slow, sentAtMs, withAnnouncement, answering };
    },

    accept(call, answer, tally) {
      const { region, permit, sentAtMs, checks } = call;
      if (answer.outcomes.length !== checks.length)
        throw new CounterStoreError('bad-reply', 'the answer has the wrong number of outcomes');
      const answeredAtMs = now();
      noteAnswer(region, permit, sentAtMs, answeredAtMs);
      if (answeredAtMs - sentAtMs > call.slowMs) tally.delayedBy ??= 'slow';
      return answer;
    },

    hear(call, answer, tally, request) {
      const { region } = call;
      if (!tally.answered.includes(region)) tally.answered.push(region);
      if (answer.announced !== undefined)
        tally.heard.push({ announced: answer.announced, pointer: region.pointer });
      hearTurns(call, answer, request);
    },

    fail(call, error, tally, request) {
      tally.asksAnnouncement = call.withAnnouncement;
      miss(call.turns, noteFailure(call, error, now()), tally, request);
    },
  };
}

/** The answer that lets a check pass. */
interface Admitting extends Pick<Answer, 'nowMs'>, Pick<RegionCall, 'sentAtMs'> {
  /** All checks of the call pass, so they are charged. */
  readonly passes: boolean;
}

const TOO_LATE = { kind: 'unanswered', isInDoubt: false, isTooLate: true, reason: 'timeout' } as const;
