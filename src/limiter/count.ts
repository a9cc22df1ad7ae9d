// Counts the checks of one request in regions, all or nothing. A `Count` is a machine: it makes no call, has no promise
// and no timer, and nobody else writes its state. `next` gets an event and returns the calls to make now, or the
// conclusion. calls.ts makes the calls and feeds their events back.
//
// # In what order it asks
//
// A step is a set of calls that are made at the same time. The machine takes the next step when each of them has had its
// event. Most requests need one step of one call: the nearest region counts all checks. Then, for each check that is
// still open: the owner, if a region says that it has transferred its part; the regions whose parts the owner should get,
// if it has denied the check; the next region that has a part, if the rule spills; a stand-in, if no region may count the
// check by itself and one has failed. While a rule moves, its old region charges before its new one. Memory may answer for
// a region with a denial.
//
// The machine concludes when all checks are admitted, when one is denied for good, when a region announces other rules
// than those that plan the request, or when no region is left to ask.
//
// # What must never be
//
// Two charges of one check that both stay. A check that is admitted without a charge, or charged without being admitted
// (the ledger gets each charge at once, and the limiter gives all of them back if the request is denied). An answer with
// more or fewer outcomes than checks. An event for no call, or after the conclusion. `next` throws then, and the limiter
// decides without the counters.

import { type Answer, type Outcome, outcomeWith, type TakeCheck } from '../core/counting/check.ts';
import type { CheckResult, DegradedReason } from '../core/decision.ts';
import { mapStable } from '../core/map-stable.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { PlacedCheck } from '../core/regions/placement.ts';
import type { Deadline } from './deadline.ts';
import type { LeaseBook } from './leases.ts';
import type { DecisionRequest } from './limiter.ts';
import type { KnownDenials } from './memory.ts';
import {
  type CallTimes,
  type FindRegion,
  forPart,
  type Turn,
  timesOf,
  toCount,
  toStandIn,
  withTurn,
} from './next-region.ts';
import type { RegionFailure, Regions } from './region.ts';
import { isClosed, type LimiterRegion, NO_TIME, NOT_ASKED, type PermittedCall } from './region.ts';
import { isOutdated, type RegionAnnouncement } from './rules-in-force.ts';
import {
  type TransferCall,
  type TransferRequest,
  type Transfers,
  transferCallsOf,
  type Use,
} from './transfers.ts';
import {
  type CheckState,
  denialOf,
  isAdmitted,
  isDenied,
  mustSeeEveryRequest,
  NOTHING,
  pendingOf,
  type Shortfall,
  shortfallsOf,
  twinAdmission,
  usesOf,
  type Verdict,
  wholeOutcome,
} from './verdicts.ts';

export interface CountRequest extends DecisionRequest {
  readonly placed: readonly PlacedCheck[];
  /** Also read the announcement of the first region that answers. */
  readonly withAnnouncement: boolean;
  /** If a region announces another, the rules are outdated and no further region is asked. */
  readonly expected?: string | undefined;
  readonly deadline: Deadline;
  /** See memory.ts. */
  readonly announcement: string;
}

/** What the isolate knows. All requests read and write it. */
export interface CountMemory {
  readonly now: () => number;
  readonly denials: KnownDenials;
  readonly transfers: Transfers;
  readonly leases: LeaseBook;
}

/** Asks a region to count. */
export interface RegionCountCall extends PermittedCall, CallTimes {
  readonly kind: 'count';
  readonly turns: readonly Turn[];
  /** The checks as sent, with the units to lease. */
  readonly checks: readonly (TakeCheck & RuleCheck)[];
  readonly withAnnouncement: boolean;
}

/** Asks a region for its parts. If that fails, the region is asked to count instead. */
export interface PartCall extends PermittedCall, Pick<CallTimes, 'givenMs'> {
  readonly kind: 'transfer';
  readonly transfer: TransferCall;
}

export type RegionCall = RegionCountCall | PartCall;

interface CountedEvent {
  readonly kind: 'counted';
  readonly call: RegionCountCall;
  readonly answer: Answer;
  readonly tookMs: number;
}

export type CountEvent =
  | { readonly kind: 'begun' }
  | CountedEvent
  | { readonly kind: 'transferred'; readonly call: PartCall }
  | { readonly kind: 'failed'; readonly call: RegionCall; readonly failure: RegionFailure };

export type CountStep =
  /** Make these calls now. */
  | { readonly kind: 'ask'; readonly calls: readonly RegionCall[]; readonly isFirst: boolean }
  /** Other calls of this step have had no event yet. */
  | { readonly kind: 'wait' }
  | Conclusion;

export interface Conclusion {
  readonly kind: 'concluded';
  readonly results: readonly CheckResult<RuleCheck>[];
  /** The regions that answered, each once. */
  readonly regions: readonly LimiterRegion[];
  /** What the first of them announces, if it was asked. */
  readonly announced: RegionAnnouncement | undefined;
  /** Checks that no region has counted, although one should have. */
  readonly missing: readonly RuleCheck[];
  /** The first failure of a region, if any has failed. */
  readonly failure: DegradedReason | undefined;
  /** Why the request waited longer for a region than it should have, although the region counts nothing or answered. */
  readonly delayedBy: DegradedReason | undefined;
  /** Counting stopped early, because the rules are outdated. */
  readonly isStopped: boolean;
  /** For the work after the response. */
  readonly uses: readonly Use[];
  readonly shortfalls: readonly Shortfall[];
}

/** The first event. After that, each call gets one. */
export const BEGUN = { kind: 'begun' } as const;
const WAIT = { kind: 'wait' } as const;

/**
 * The isolate may ask each region once for its part and twice to count, because an owner may have got more parts
 * meanwhile, and once to stand in for another.
 */
const mostSteps = (regions: Regions) => 4 * regions.length + 1;

export class Count {
  /** See `Deadline` in deadline.ts. */
  static readonly kept: Count = new Count({} as CountMemory, { placed: NOTHING } as unknown as CountRequest);

  readonly request: CountRequest;
  readonly #memory: CountMemory;
  readonly #checks: readonly CheckState[];
  /** The calls of this step that have had no event yet. */
  #open: readonly RegionCall[] = NOTHING;
  #steps = 0;
  #isConcluded = false;
  /** Whether the next call also reads the announcement. */
  #asksAnnouncement: boolean;
  #announced: RegionAnnouncement | undefined;
  #answered: readonly LimiterRegion[] = NOTHING;
  #failure: DegradedReason | undefined;
  #delayedBy: DegradedReason | undefined;

  constructor(memory: CountMemory, request: CountRequest) {
    this.request = request;
    this.#memory = memory;
    this.#checks = mapStable(request.placed, pendingOf);
    this.#asksAnnouncement = request.withAnnouncement;
  }

  next(event: CountEvent): CountStep {
    if (this.#isConcluded) throw new Error(`expected no event after the conclusion, got "${event.kind}"`);
    if (event.kind !== 'begun') this.#note(event);
    else if (this.#steps > 0) throw new Error('expected one beginning, got another');
    return this.#open.length > 0 ? WAIT : this.#step();
  }

  #note(event: Exclude<CountEvent, { kind: 'begun' }>): void {
    const { kind, call } = event;
    if (!this.#open.includes(call))
      throw new Error(`expected one event for each call, got "${kind}" of ${call.region.name} for none`);
    this.#open = this.#open.length === 1 ? NOTHING : this.#open.filter((one) => one !== call);
    if (kind === 'counted') this.#accept(event);
    if (kind !== 'failed') return;
    if (call.kind === 'transfer') this.#delayedBy ??= event.failure.reason;
    else {
      this.#asksAnnouncement ||= call.withAnnouncement;
      this.#fail(call.turns, event.failure);
    }
  }

  #step(): CountStep {
    while (this.#steps < mostSteps(this.request.regions) && !this.#checks.every(isAdmitted)) {
      const asking = this.#askingOf();
      if (!asking) break;
      if (this.#isOutdated()) return this.#conclude(true);
      const calls = this.#callsOf(asking);
      this.#steps += 1;
      if (calls.length === 0) continue;
      this.#open = calls;
      return { kind: 'ask', calls, isFirst: this.#steps === 1 };
    }
    return this.#conclude(false);
  }

  /** No further region is asked then. */
  #isOutdated(): boolean {
    const { expected } = this.request;
    return expected !== undefined && this.#announced !== undefined && isOutdated(this.#announced, expected);
  }

  /** Undefined if there is no region left to ask, or if a check is denied and cannot be tried elsewhere. */
  #askingOf(): Asking | undefined {
    const { regions, operation, announcement } = this.request;
    const { transfers } = this.#memory;
    const isTake = operation === 'take';
    const remembered = isTake && !this.#checks.some(mustSeeEveryRequest) ? announcement : undefined;
    const partRequests: TransferRequest[] = [];
    let turns: readonly Turn[] = NOTHING;
    let isOver = false;
    /** The last check that still waits for a region, and that region. */
    let waiting: RuleCheck | undefined;
    let waitsFor: LimiterRegion | undefined;
    for (const state of this.#checks) {
      if (state.admission) continue;
      const { check } = state.placed;
      const partRequest = isTake ? forPart(transfers, state, regions) : undefined;
      const own = partRequest ? undefined : turnOf(this.#memory, toCount, state, regions, remembered);
      const turn =
        own ?? (partRequest ? undefined : turnOf(this.#memory, toStandIn, state, regions, remembered));
      // A region that was removed has not failed, but it does not answer either.
      if (turn && !own) this.#failure ??= 'unavailable';
      state.admission = turn && this.#steps > 0 ? twinAdmission(this.#checks, check, turn) : undefined;
      if (state.admission) continue;
      // While a rule moves, its old region charges first: see placement.ts.
      if (turn && isTake && waiting === check && waitsFor !== turn.region) continue;
      if (partRequest) partRequests.push(partRequest);
      else if (turn) turns = withTurn(turns, turn);
      else isOver ||= isDenied(state);
      waiting = turn || partRequest ? check : undefined;
      waitsFor = turn?.region;
    }
    return turns.length + partRequests.length === 0 || isOver ? undefined : { turns, partRequests };
  }

  #callsOf({ turns, partRequests }: Asking): readonly RegionCall[] {
    const [first] = turns;
    // The usual case. No list is made that this one call does not need.
    if (first && partRequests.length === 0 && turns.every(({ region }) => region === first.region)) {
      const call = this.#countCallOf(first.region, turns);
      return call ? [call] : NOTHING;
    }
    const parts = transferCallsOf(partRequests).map((transfer) => this.#partCallOf(transfer));
    const byRegion = [...Map.groupBy(turns, ({ region }) => region)];
    const counts = byRegion.map(([region, some]) => this.#countCallOf(region, some));
    return [...parts, ...counts].filter((call) => call !== undefined);
  }

  /** Undefined if the region cannot be called now. */
  #partCallOf(transfer: TransferCall): PartCall | undefined {
    const { from: region } = transfer;
    const permit = region.breaker.enter();
    const givenMs = region.distance.fitMs(this.request.deadline.remainingMs(), true);
    const sentAtMs = this.#memory.now();
    if (permit !== undefined)
      return { kind: 'transfer', transfer, region, permit, givenMs, isFair: true, sentAtMs };
    this.#delayedBy ??= NOT_ASKED.reason;
    return undefined;
  }

  /** Undefined if the region cannot be called now. */
  #countCallOf(region: LimiterRegion, turns: readonly Turn[]): RegionCountCall | undefined {
    const { operation, regions } = this.request;
    const { givenMs, isFair, slowMs } = timesOf(region, turns, this.request, this.#steps === 0);
    const permit = givenMs > 0 ? region.breaker.enter() : undefined;
    if (permit === undefined) {
      this.#fail(turns, givenMs > 0 ? NOT_ASKED : NO_TIME);
      return undefined;
    }
    const withAnnouncement = this.#asksAnnouncement;
    // One announcement is enough, so later calls do not read it.
    this.#asksAnnouncement = false;
    const mayLease = operation === 'take' && region === regions[0];
    const checks = mapStable(turns, (turn) => (mayLease ? this.#withLease(turn) : turn.check));
    const sentAtMs = this.#memory.now();
    return {
      kind: 'count',
      region,
      turns,
      checks,
      withAnnouncement,
      permit,
      givenMs,
      isFair,
      slowMs,
      sentAtMs,
    };
  }

  /** The check with units to lease, if it is time for a lease. */
  #withLease({ check, states: [{ placed }] }: Turn): TakeCheck & RuleCheck {
    const leaseUnits = this.#memory.leases.claim(this.request.regions, placed, check);
    return leaseUnits > 0 ? { ...check, leaseUnits } : check;
  }

  #accept({ call, answer, tookMs }: CountedEvent): void {
    const { region, turns, checks, slowMs } = call;
    const { outcomes, nowMs, announced } = answer;
    if (outcomes.length !== checks.length)
      throw new Error(`expected ${checks.length} outcomes of ${region.name}, got ${outcomes.length}`);
    if (tookMs > slowMs) this.#delayedBy ??= 'slow';
    if (announced !== undefined) this.#announced = { announced, pointer: region.pointer };
    if (this.#answered.length === 0) this.#answered = [region];
    else if (!this.#answered.includes(region)) this.#answered = [...this.#answered, region];
    const passes = turns.every(({ check }, i) => {
      const outcome = outcomes[i];
      return outcome?.allowed || (check.isShadow && outcome?.transferredTo === undefined);
    });
    for (let i = 0; i < turns.length; i += 1) {
      const turn = turns[i] as Turn;
      const told = outcomes[i] as Outcome;
      if (checks[i]?.leaseUnits) this.#memory.leases.answered(turn.check);
      const atMs = told.nowMs ?? nowMs;
      const outcome = outcomeWith(told, { nowMs: atMs });
      if (outcome.allowed) this.#admit(call, turn, outcome, atMs, passes);
      else this.#refuse(call, turn, outcome, atMs);
    }
  }

  /** With `passes`, the region admits all checks of the call, so it has charged this one. */
  #admit(call: RegionCountCall, turn: Turn, outcome: Outcome, atMs: number, passes: boolean): void {
    const { region, check, states } = turn;
    const { operation, ledger } = this.request;
    const isCharged = passes && operation === 'take';
    const [{ placed, verdicts }] = states;
    const whole = wholeOutcome(placed, verdicts, check, outcome);
    const remaining = isCharged ? this.#noteForLeases(call, turn, outcome, whole) : whole.remaining;
    const shown = remaining === whole.remaining ? whole : outcomeWith(whole, { remaining });
    const result = { check, outcome: shown };
    for (const state of states) {
      if (state.admission)
        throw new Error(`expected one charge of ${check.id}, got a second by ${region.name}`);
      if (passes || operation === 'peek') state.admission = { region, result, outcome };
      else state.preview = result;
    }
    if (isCharged) ledger.noteCharge(region.store, check, atMs);
  }

  /** Notes the charge, and the lease that came with it. Returns what is left of the whole limit. */
  #noteForLeases({ sentAtMs }: RegionCountCall, turn: Turn, outcome: Outcome, whole: Outcome): number {
    const { regions, announcement } = this.request;
    const { region, check, states } = turn;
    // A stand-in leases nothing: its counter is of no use once the owner is back.
    if (region !== regions[0] || check.id !== states[0].placed.check.id) return whole.remaining;
    const { nowMs: chargedAtMs = sentAtMs } = outcome;
    const usedNow = check.cost;
    const grant = { region, check, outcome, whole, sentAtMs, announcement, chargedAtMs, usedNow };
    return this.#memory.leases.note(grant);
  }

  #refuse({ sentAtMs }: RegionCountCall, turn: Turn, outcome: Outcome, atMs: number): void {
    const { region, check } = turn;
    const { transfers, leases, denials } = this.#memory;
    const { operation, announcement, regions } = this.request;
    const moment = { askedAtMs: sentAtMs, answeredAtMs: atMs, announcement };
    if (outcome.transferredTo !== undefined) transfers.learn(check, region.name, outcome, moment);
    else this.#setVerdicts(turn, { outcome });
    if (outcome.transferredTo !== undefined || operation !== 'take') return;
    if (region === regions[0]) leases.denied(check, outcome, atMs);
    if (!region.isCluster) denials.remember(region.name, check, outcome, moment);
  }

  /** A region has not counted these checks, as far as the isolate knows. */
  #fail(turns: readonly Turn[], { reason, isInDoubt, isTooLate }: RegionFailure): void {
    const { operation, ledger } = this.request;
    this.#failure ??= reason;
    for (const turn of turns) {
      this.#setVerdicts(turn, { isTooLate });
      if (isInDoubt && operation === 'take') ledger.noteDoubt(turn.region.store, [turn.check]);
    }
  }

  /** While a rule moves, each placement has its own part in the region. */
  #setVerdicts({ states, region, check }: Turn, verdict: Omit<Verdict, 'check'>): void {
    const { transfers } = this.#memory;
    for (const state of states) {
      const own = states.length === 1 ? check : (transfers.checkAt(state.placed, region.name) ?? check);
      const { outcome = state.verdicts.get(region.name)?.outcome, isTooLate } = verdict;
      setVerdict(state, region.name, { check: own, outcome, isTooLate });
    }
  }

  #conclude(isStopped: boolean): Conclusion {
    const { regions, operation } = this.request;
    const checks = this.#checks;
    this.#isConcluded = true;
    const isAll = checks.every(isAdmitted);
    if (!isAll && !isStopped && this.#failure === undefined && regions.every(isClosed)) this.#denyLocked();
    const isRefusal = !isAll && checks.some(isDenied);
    const results: CheckResult<RuleCheck>[] = [];
    for (const state of checks) {
      const result = state.admission?.result ?? denialOf(state) ?? (isRefusal ? state.preview : undefined);
      if (result) results.push(result);
    }
    // With one region there is no other to ask for parts.
    const isFollowed = operation === 'take' && !isStopped && regions.length > 1;
    return {
      kind: 'concluded',
      results,
      regions: this.#answered,
      announced: this.#announced,
      missing: isAll || isStopped ? NOTHING : checks.flatMap((state) => this.#missed(state, isRefusal)),
      failure: this.#failure,
      delayedBy: this.#delayedBy,
      isStopped,
      uses: isFollowed ? usesOf(checks, regions) : NOTHING,
      shortfalls: isFollowed && checks.length > 1 ? shortfallsOf(checks, this.#memory.now()) : NOTHING,
    };
  }

  /** Denies checks that no region may count now, if all regions answer. Admitting them could exceed the limit. */
  #denyLocked(): void {
    const { transfers, now } = this.#memory;
    for (const state of this.#checks) {
      const { placed, admission, verdicts } = state;
      const waitMs = admission || verdicts.size > 0 ? undefined : transfers.lockedMs(placed);
      if (waitMs === undefined) continue;
      const end = { resetAtMs: now() + waitMs, retryAfterMs: waitMs, nowMs: now() };
      const outcome = { allowed: false, remaining: 0, granted: 0, delayMs: 0, ...end };
      setVerdict(state, '', { check: placed.check, outcome });
    }
  }

  /** The check that should have been counted and was not, with the part of the nearest region that has one. */
  #missed(state: CheckState, isRefusal: boolean): RuleCheck[] {
    const { placed, admission, verdicts } = state;
    if (admission || denialOf(state) || (isRefusal && verdicts.size === 0)) return [];
    const { transfers } = this.#memory;
    const at = this.request.regions.flatMap(({ name }) => transfers.checkAt(placed, name) ?? []);
    return [at[0] ?? placed.check];
  }
}

/** What the isolate asks regions at the same time. */
interface Asking {
  readonly turns: readonly Turn[];
  readonly partRequests: readonly TransferRequest[];
}

/** Makes a new map, because all checks start with the same empty one. Most checks are admitted at once and keep it. */
function setVerdict(state: CheckState, region: string, verdict: Verdict): void {
  state.verdicts = new Map(state.verdicts).set(region, verdict);
}

/** The next region for a check. With an announcement, the isolate uses denials that it remembers instead of calls. */
function turnOf(
  { now, denials, transfers }: CountMemory,
  find: FindRegion,
  state: CheckState,
  regions: Regions,
  announcement: string | undefined,
): Turn | undefined {
  for (;;) {
    const found = find(transfers, state, regions);
    if (!found) return undefined;
    const { region, check } = found;
    const mayRemember = announcement !== undefined && denials.size > 0;
    const outcome = mayRemember ? denials.find(region.name, check, now(), announcement) : undefined;
    if (!outcome) return { region, check, states: [state] };
    setVerdict(state, region.name, { check, outcome });
  }
}

export type DenialRequest = Pick<CountRequest, 'placed' | 'regions' | 'announcement'>;

/** The results of a denial that memory knows; undefined if a region must be asked. */
export function knownDenial(
  memory: CountMemory,
  { placed, regions, announcement }: DenialRequest,
): CheckResult<RuleCheck>[] | undefined {
  if (memory.denials.size === 0 || placed.some(({ check }) => check.countDenied)) return undefined;
  const all = mapStable(placed, pendingOf);
  const known = all.filter(
    (state) => !turnOf(memory, toCount, state, regions, announcement) && isDenied(state),
  );
  // Only Redis can tell whether this request would start a block.
  const isOpen = all.some((state) => state.placed.check.blockMs && !known.includes(state));
  return known.length > 0 && !isOpen ? known.flatMap((state) => denialOf(state) ?? []) : undefined;
}
