// The twin of the script (lua/counters) on counters in memory: judges the checks of one request and charges all of them, or
// none. Tests compare the script with it, and the isolate counts with it when Redis is down.

import { createBoundedCache } from '../bounded-cache.ts';
import { mapStable } from '../map-stable.ts';
import type { Amendment, Reading } from './algorithms/algorithm.ts';
import { ALGORITHM_IDS, type AlgorithmId, algorithmOf, traitsOf } from './algorithms/registry.ts';
import {
  type Answer,
  type Balance,
  type Check,
  type CheckOf,
  type Operation,
  type Outcome,
  problemOf,
  type ReplyOf,
  type TakeCheck,
} from './check.ts';
import { groupOf, PROBE_KEY } from './keys.ts';
import { IDLE_MS, recall, transfer } from './transfer.ts';

// Judges one check alone, by its counter as it is now.

export interface Counter {
  readonly algorithm: AlgorithmId;
  readonly state: unknown;
  readonly blockedUntilMs: number;
  /** When the store may forget the counter. */
  readonly expiresAtMs: number;
  /** This region has transferred its part: it counts nothing until the record expires. */
  readonly transferred?: TransferRecord | undefined;
}

export interface TransferRecord {
  readonly owner: string;
  /** The owner may use this part until then. */
  readonly usableUntilMs: number;
  /** This region wants its part back, so it refuses renewals. */
  readonly isWanted: boolean;
}

/** A store of counters. It may drop expired ones. */
export interface Counters {
  get(key: string, id: string): Counter | undefined;
  /**
   * Saves a changed counter, or forgets it. With `nowMs`, the store may also drop expired counters of the key, if this
   * counter is forgotten or expires earlier than before.
   */
  save(key: string, id: string, counter: Counter | undefined, nowMs?: number): void;
}

/** A transfer that has not ended. */
export interface LiveTransfer extends TransferRecord {
  readonly untilMs: number;
}

export interface Judgement<C extends Check = Check> extends Reading<unknown> {
  /** Set if this region has transferred the counter. */
  readonly moved: LiveTransfer | undefined;
  readonly check: C;
  readonly blockedUntilMs: number;
  /** 0 if the cost fits; infinite if it never will. */
  readonly retryMs: number;
}

export const paramsOf = ({ limit, windowMs, borders, extra, seatId = '' }: Check) => ({
  limit,
  windowMs,
  borders,
  extra,
  seatId,
});
export const fits = ({ retryMs }: Judgement) => retryMs === 0;

/** The result of this check alone. */
export function judge<C extends Check>(check: C, counter: Counter | undefined, nowMs: number): Judgement<C> {
  const known = counter?.algorithm === check.algorithm && !counter.transferred ? counter : undefined;
  const reading = algorithmOf(check.algorithm).advance(known?.state, nowMs, paramsOf(check));
  const blockedUntilMs = known?.blockedUntilMs ?? 0;
  // Each field is written out: `outcomeWith` explains why.
  return {
    state: reading.state,
    room: reading.room,
    capacity: reading.capacity,
    delayMs: reading.delayMs,
    check,
    moved: liveTransferOf(counter, nowMs),
    blockedUntilMs,
    retryMs: retryMs(check, reading, blockedUntilMs, nowMs),
  };
}

export const liveTransferOf = (counter: Counter | undefined, nowMs: number): LiveTransfer | undefined =>
  counter?.transferred && counter.expiresAtMs > nowMs
    ? { ...counter.transferred, untilMs: counter.expiresAtMs }
    : undefined;

export function retryMs(
  check: Check,
  reading: Reading<unknown>,
  blockedUntilMs: number,
  nowMs: number,
): number {
  if (check.cost > reading.capacity) return Number.POSITIVE_INFINITY;
  const waitMs =
    check.cost > reading.room
      ? algorithmOf(check.algorithm).waitMs(reading.state, nowMs, paramsOf(check), check.cost)
      : 0;
  return Math.max(waitMs, blockedUntilMs - nowMs, 0);
}

export function runChecks<O extends Operation>(
  operation: O,
  checks: readonly CheckOf<O>[],
  nowMs: number,
  counters: Counters,
): Answer<ReplyOf<O>> {
  checks.forEach((check, i) => {
    assertUsable(check, operation, i);
  });
  return { nowMs, outcomes: RUNS[operation](checks, nowMs, counters) };
}

const judgeAll = <C extends Check>(checks: readonly C[], nowMs: number, counters: Counters) =>
  checks.map((check) => judge(check, counters.get(check.key, check.id), nowMs));

/** How each operation judges the checks, and changes their counters. All checks are judged before a counter changes. */
const RUNS: {
  readonly [O in Operation]: (
    checks: readonly CheckOf<O>[],
    nowMs: number,
    counters: Counters,
  ) => readonly ReplyOf<O>[];
} = {
  take(checks, nowMs, counters) {
    const judged = judgeAll(checks, nowMs, counters);
    const passes = judged.every(lets);
    return judged.map((one) => {
      const result = taken(one, passes, nowMs);
      // Looks at other counters of the key only when it drops its own, because looking costs the script time.
      if (!one.moved) save(result, nowMs, counters, expiryOf(result) <= nowMs);
      return toOutcome(result, nowMs);
    });
  },

  peek: (checks, nowMs, counters) =>
    judgeAll(checks, nowMs, counters).map((one) => toOutcome(charge(one, 0, nowMs), nowMs)),

  refund: (checks, nowMs, counters) =>
    judgeAll(checks, nowMs, counters).map((one) => {
      const { cost, chargedAtMs = nowMs, keptUnits = 0 } = one.check;
      return amend(one, -cost, { chargedAtMs, keptUnits }, nowMs, counters);
    }),

  settle: (checks, nowMs, counters) =>
    judgeAll(checks, nowMs, counters).map((one) => {
      const { chargedAtMs, mostUnits } = one.check;
      const lacking = mostUnits ? mostUnits - (one.capacity - one.room) : Number.POSITIVE_INFINITY;
      const units = Math.max(0, Math.min(withinDebt(one), lacking));
      const balance = amend(one, units, { chargedAtMs, keptUnits: 0 }, nowMs, counters);
      return { ...balance, chargedUnits: one.moved ? 0 : units };
    }),

  renew: (checks, nowMs, counters) =>
    judgeAll(checks, nowMs, counters).map((one) => {
      const held = algorithmOf(one.check.algorithm).held?.(one.state, one.check.seatId ?? '') ?? 0;
      if (one.moved || held === 0) return 'lost';
      save(charge(one, held, nowMs), nowMs, counters, true);
      return 'held';
    }),

  transfer: (checks, nowMs, counters) => checks.map((check) => transfer(check, nowMs, counters)),

  recall: (checks, nowMs, counters) => checks.map((check) => recall(check, nowMs, counters)),
};

/** A judged counter, and what the operation has made of it. */
interface Result {
  readonly check: Check;
  readonly moved: LiveTransfer | undefined;
  readonly allowed: boolean;
  readonly changed: boolean;
  readonly state: unknown;
  readonly room: number;
  readonly delayMs: number;
  readonly granted: number;
  readonly retryMs: number;
  readonly resetAtMs: number;
  readonly blockedUntilMs: number;
}

const lets = (one: Judgement) => !one.moved && (fits(one) || one.check.isShadow === true);

/** What a take answers, by the counters as they are. Changes nothing. */
export function decideTake(
  checks: readonly TakeCheck[],
  nowMs: number,
  counterOf: (check: TakeCheck) => Counter | undefined,
): { readonly passes: boolean; readonly outcomes: readonly Outcome[] } {
  const judged = mapStable(checks, (check) => judge(check, counterOf(check), nowMs));
  const passes = judged.every(lets);
  return { passes, outcomes: mapStable(judged, (one) => toOutcome(taken(one, passes, nowMs), nowMs)) };
}

function taken(one: Judgement<TakeCheck>, passes: boolean, nowMs: number): Result {
  if (!passes && (fits(one) || one.check.isShadow)) return charge(one, 0, nowMs);
  return fits(one) ? admit(one, nowMs) : deny(one, nowMs);
}

/** Moves the counter by `units`; with 0 it only finds out when the limit is free again. */
function charge(one: Judgement, units: number, nowMs: number, amendment?: Amendment, granted = 0): Result {
  const { check, moved, blockedUntilMs, delayMs, retryMs: wait } = one;
  const { state, resetAtMs } = algorithmOf(check.algorithm).charge(
    one.state,
    units,
    nowMs,
    paramsOf(check),
    amendment,
  );
  return {
    check,
    moved,
    allowed: fits(one),
    changed: units !== 0,
    state,
    room: one.room - units,
    delayMs,
    granted,
    retryMs: wait,
    resetAtMs,
    blockedUntilMs,
  };
}

/** Changes an earlier charge, if its window is still kept. Then judges the check again, to find out what is left. */
function amend(
  one: Judgement,
  units: number,
  amendment: Amendment,
  nowMs: number,
  counters: Counters,
): Balance {
  const { check, moved } = one;
  if (moved) return { remaining: 0, resetAtMs: moved.untilMs };
  const result = charge(one, units, nowMs, amendment);
  save(result, nowMs, counters, true);
  const { state, blockedUntilMs } = result;
  const counter = {
    algorithm: check.algorithm,
    state,
    blockedUntilMs,
    expiresAtMs: Number.POSITIVE_INFINITY,
  };
  const { room } = judge(check, counter, nowMs);
  return { remaining: remainingOf(room, blockedUntilMs, nowMs), resetAtMs: expiryOf(result) };
}

/** Units to charge without room for them: up to a debt of the whole capacity. */
const withinDebt = ({ check, room, capacity }: Judgement) =>
  Math.max(0, Math.min(check.cost, room + capacity));

function admit(one: Judgement<TakeCheck>, nowMs: number): Result {
  const granted = Math.min(one.check.leaseUnits ?? 0, one.room - one.check.cost);
  return charge(one, one.check.cost + granted, nowMs, undefined, granted);
}

/**
 * Does what the denying rule asks for: counts the denied request, up to a debt of the whole capacity, and starts a
 * block.
 */
function deny(one: Judgement, nowMs: number): Result {
  const { check } = one;
  const canEverFit = one.retryMs !== Number.POSITIVE_INFINITY;
  const units = check.countDenied && canEverFit ? withinDebt(one) : 0;
  const result = charge(one, units, nowMs);
  if (!canEverFit) return result;
  const blocks = check.blockMs !== undefined && one.blockedUntilMs <= nowMs;
  const blockedUntilMs = blocks ? nowMs + (check.blockMs ?? 0) : one.blockedUntilMs;
  const reading = { ...one, state: result.state, room: result.room };
  return {
    ...result,
    changed: result.changed || blocks,
    blockedUntilMs,
    retryMs: retryMs(check, reading, blockedUntilMs, nowMs),
  };
}

/** When the whole limit is free again, and the counter may be forgotten. */
const expiryOf = ({ resetAtMs, blockedUntilMs }: Result) => Math.max(resetAtMs, blockedUntilMs);

/** Saves the counter if it has changed. */
function save(result: Result, nowMs: number, counters: Counters, looksAround: boolean): void {
  const { check, changed, state, blockedUntilMs } = result;
  if (!changed) return;
  const expiresAtMs = expiryOf(result);
  // A block that is over stays so, even if the clock goes back.
  const blockedMs = blockedUntilMs > nowMs ? blockedUntilMs : 0;
  const counter = { algorithm: check.algorithm, state, blockedUntilMs: blockedMs, expiresAtMs };
  counters.save(
    check.key,
    check.id,
    expiresAtMs <= nowMs ? undefined : counter,
    looksAround ? nowMs : undefined,
  );
}

const remainingOf = (room: number, blockedUntilMs: number, nowMs: number) =>
  blockedUntilMs > nowMs ? 0 : Math.max(0, room);

function toOutcome(result: Result, nowMs: number): Outcome {
  const { moved, allowed, room, blockedUntilMs, granted, delayMs } = result;
  if (moved) return outcomeOfTransfer(moved, nowMs);
  return {
    allowed,
    remaining: remainingOf(room, blockedUntilMs, nowMs),
    resetAtMs: expiryOf(result),
    retryAfterMs: Number.isFinite(result.retryMs) ? result.retryMs : undefined,
    granted,
    delayMs,
    nowMs: undefined,
    transferredTo: undefined,
  };
}

const outcomeOfTransfer = ({ owner, usableUntilMs, untilMs }: LiveTransfer, nowMs: number): Outcome => ({
  allowed: false,
  remaining: 0,
  resetAtMs: untilMs,
  retryAfterMs: untilMs - nowMs,
  granted: 0,
  delayMs: 0,
  transferredTo: { name: owner, usableMs: Math.max(0, usableUntilMs - nowMs) },
});

/** A bug of the caller: rules are validated long before they become checks. */
export class BadCheckError extends Error {
  constructor(index: number, problem: string) {
    super(`check ${index + 1}: ${problem}`);
    this.name = 'BadCheckError';
  }
}

function assertUsable<O extends Operation>(check: CheckOf<O>, operation: O, index: number): void {
  const problem = problemOf(check, operation);
  if (problem !== undefined) throw new BadCheckError(index, problem);
}

// Counters in a Map, for the model in tests.

export interface MemoryCounters extends Counters {
  /** Forgets all counters of a key, but keeps records of transfers. */
  reset(key: string): void;
}

export function createMemoryCounters(): MemoryCounters {
  const keys = new Map<string, Map<string, Counter>>();

  return {
    get: (key, id) => keys.get(key)?.get(id),

    // Drops expired counters exactly when the script does. Otherwise a clock that goes back would show a difference.
    save(key, id, counter, nowMs) {
      const counters = keys.get(key) ?? new Map<string, Counter>();
      const before = counters.get(id)?.expiresAtMs ?? 0;
      if (counter) counters.set(id, counter);
      else counters.delete(id);
      if (nowMs !== undefined && (counter?.expiresAtMs ?? 0) < before) forgetExpired(counters, nowMs);
      if (counters.size > 0) keys.set(key, counters);
      else keys.delete(key);
    },

    reset(key) {
      const counters = keys.get(key) ?? new Map<string, Counter>();
      for (const [id, { transferred }] of counters) if (!transferred) counters.delete(id);
      if (counters.size === 0) keys.delete(key);
    },
  };
}

function forgetExpired(counters: Map<string, Counter>, nowMs: number): void {
  for (const [id, { expiresAtMs }] of counters) if (expiresAtMs + IDLE_MS <= nowMs) counters.delete(id);
}

// A bounded number of counters in memory, for limits that one isolate counts alone. The isolate forgets the counter
// that was used longest ago.

export function createBoundedCounters(maxCounters: number): Counters {
  const counters = createBoundedCache<Counter>(maxCounters);
  const nameOf = (key: string, id: string) => `${id} ${key}`;

  return {
    // Returns expired counters, too: the algorithm ignores them by the clock of the call.
    get: (key, id) => counters.get(nameOf(key, id), Number.NEGATIVE_INFINITY),
    save(key, id, counter) {
      if (counter) counters.set(nameOf(key, id), counter, counter.expiresAtMs);
      else counters.delete(nameOf(key, id));
    },
  };
}

// A call that tests whether a store can count at all: a take under every algorithm, on keys of its own. It writes,
// because a full or read-only database can still be read.

/** Short, so that a probe leaves nothing behind. Whether it is admitted does not matter. */
const WINDOW_MS = 1_000;
const LIMIT = 100;

export const PROBE_CHECKS: readonly Check[] = ALGORITHM_IDS.map((algorithm) => ({
  key: keyOf(algorithm),
  id: algorithm,
  algorithm,
  limit: LIMIT,
  windowMs: WINDOW_MS,
  cost: 1,
  // No random id looks like this one.
  ...(traitsOf(algorithm).holdsSeats && { seatId: '-'.repeat(16) }),
}));

function keyOf(algorithm: AlgorithmId): string {
  const group = groupOf({ algorithm, counterId: algorithm });
  return group === '' ? PROBE_KEY : `${PROBE_KEY}:${group}`;
}
