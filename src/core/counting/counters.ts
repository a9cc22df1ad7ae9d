// The twin of lua/counters.lua on counters in memory: judges the checks of one request and charges all of them, or
// none. Tests compare the script with it, and the isolate counts with it when Redis is down.

import { createBoundedCache } from '../bounded-cache.ts';
import type { Reading } from './algorithms/algorithm.ts';
import { ALGORITHM_IDS, type AlgorithmId, algorithmOf, traitsOf } from './algorithms/registry.ts';
import { type Answer, type Check, type Operation, type Outcome, problemOf } from './check.ts';
import { groupOf, PROBE_KEY } from './keys.ts';
import { CESSIONS, IDLE_MS, transfer } from './transfer.ts';

// Judges one check alone, by its counter as it is now.

export interface Counter {
  readonly algorithm: AlgorithmId;
  readonly state: unknown;
  readonly blockedUntilMs: number;
  /** When the store may forget the counter. */
  readonly expiresAtMs: number;
  /** This region has transferred its part: it counts nothing until the record expires. */
  readonly transferred?: Transferred | undefined;
}

export interface Transferred {
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

export interface Moved extends Transferred {
  readonly untilMs: number;
}

export interface Judged extends Reading<unknown> {
  /** Set if this region has transferred the counter. */
  readonly moved: Moved | undefined;
  readonly check: Check;
  readonly blockedUntilMs: number;
  /** 0 if the cost fits; infinite if it never will. */
  readonly retryMs: number;
}

export const paramsOf = ({ limit, windowMs, borders, extra, seatId = '', want: kept = 0 }: Check) => ({
  limit,
  windowMs,
  borders,
  extra,
  seatId,
  kept,
});
export const fits = ({ retryMs }: Judged) => retryMs === 0;

/** The result of this check alone. */
export function judge(check: Check, counter: Counter | undefined, nowMs: number): Judged {
  const known = counter?.algorithm === check.algorithm && !counter.transferred ? counter : undefined;
  const reading = algorithmOf(check.algorithm).advance(known?.state, nowMs, paramsOf(check));
  const blockedUntilMs = known?.blockedUntilMs ?? 0;
  const moved = movedOf(counter, nowMs);
  return {
    ...reading,
    check,
    moved,
    blockedUntilMs,
    retryMs: retryMs(check, reading, blockedUntilMs, nowMs),
  };
}

export const movedOf = (counter: Counter | undefined, nowMs: number): Moved | undefined =>
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

export function runChecks(
  operation: Operation,
  checks: readonly Check[],
  nowMs: number,
  counters: Counters,
): Answer {
  checks.forEach((check, i) => {
    assertUsable(check, operation, i);
  });
  if (operation === 'transfer' || operation === 'recall')
    return { nowMs, outcomes: checks.map((check) => CESSIONS[operation](check, nowMs, counters)) };
  const judged = checks.map((check) => judge(check, counters.get(check.key, check.id), nowMs));
  const counted = OPERATIONS[operation](judged, nowMs);
  for (const { check, changed, state, blockedUntilMs, resetAtMs, moved } of counted) {
    if (!changed || moved) continue;
    const expiresAtMs = Math.max(resetAtMs, blockedUntilMs);
    // A block that is over stays so, even if the clock goes back.
    const blockedMs = blockedUntilMs > nowMs ? blockedUntilMs : 0;
    const counter = { algorithm: check.algorithm, state, blockedUntilMs: blockedMs, expiresAtMs };
    const isOver = expiresAtMs <= nowMs;
    // A take looks at other counters of the key only when it drops its own, because looking costs the script time.
    const looksAround = isOver || operation !== 'take';
    counters.save(check.key, check.id, isOver ? undefined : counter, looksAround ? nowMs : undefined);
  }
  return { nowMs, outcomes: counted.map((one) => toOutcome(one, operation, nowMs)) };
}

interface Counted {
  readonly check: Check;
  readonly moved: Moved | undefined;
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

const OPERATIONS: Record<
  Exclude<Operation, 'transfer' | 'recall'>,
  (judged: readonly Judged[], nowMs: number) => Counted[]
> = {
  take(judged, nowMs) {
    const passes = judged.every((one) => !one.moved && (fits(one) || one.check.isShadow));
    return judged.map((one) => {
      if (!passes && (fits(one) || one.check.isShadow)) return charge(one, 0, nowMs);
      return fits(one) ? admit(one, nowMs) : deny(one, nowMs);
    });
  },

  peek: (judged, nowMs) => judged.map((one) => charge(one, 0, nowMs)),

  refund: (judged, nowMs) => judged.map((one) => amend(one, -one.check.cost, nowMs)),

  settle: (judged, nowMs) => judged.map((one) => amend(one, settledUnits(one), nowMs)),

  renew: (judged, nowMs) =>
    judged.map((one) => {
      const held = algorithmOf(one.check.algorithm).held?.(one.state, one.check.seatId ?? '') ?? 0;
      return { ...charge(one, held, nowMs), allowed: held > 0, retryMs: 0 };
    }),
};

/**
 * Moves the counter by `units`; with 0 it only finds out when the limit is free again. With `chargedAtMs` it changes
 * that charge.
 */
function charge(one: Judged, units: number, nowMs: number, chargedAtMs?: number): Counted {
  const { check, moved, blockedUntilMs, delayMs, retryMs: wait } = one;
  const { state, resetAtMs } = algorithmOf(check.algorithm).charge(
    one.state,
    units,
    chargedAtMs,
    nowMs,
    paramsOf(check),
  );
  return {
    check,
    moved,
    allowed: fits(one),
    changed: units !== 0,
    state,
    room: one.room - units,
    delayMs,
    granted: 0,
    retryMs: wait,
    resetAtMs,
    blockedUntilMs,
  };
}

/** Changes an earlier charge, if its window is still kept. Then judges the check again, to find out what is left. */
function amend(one: Judged, units: number, nowMs: number): Counted {
  const { check } = one;
  const counted = charge(one, units, nowMs, check.chargedAtMs ?? nowMs);
  const counter = { ...counted, algorithm: check.algorithm, expiresAtMs: Number.POSITIVE_INFINITY };
  const { room, delayMs } = judge(check, counter, nowMs);
  return { ...counted, allowed: true, retryMs: 0, room, delayMs };
}

/** Units to charge without room for them: up to a debt of the whole capacity. */
const withinDebt = ({ check, room, capacity }: Judged) => Math.max(0, Math.min(check.cost, room + capacity));

/** With `want`, the counter has at most that many used units afterwards: this raises it to the level of another one. */
function settledUnits(one: Judged): number {
  const { check, room, capacity } = one;
  const lacking = check.want ? check.want - (capacity - room) : Number.POSITIVE_INFINITY;
  return Math.max(0, Math.min(withinDebt(one), lacking));
}

function admit(one: Judged, nowMs: number): Counted {
  const granted = Math.min(one.check.want ?? 0, one.room - one.check.cost);
  return { ...charge(one, one.check.cost + granted, nowMs), granted };
}

/**
 * Does what the denying rule asks for: counts the denied request, up to a debt of the whole capacity, and starts a
 * block.
 */
function deny(one: Judged, nowMs: number): Counted {
  const { check } = one;
  const canEverFit = one.retryMs !== Number.POSITIVE_INFINITY;
  const units = check.countDenied && canEverFit ? withinDebt(one) : 0;
  const counted = charge(one, units, nowMs);
  if (!canEverFit) return counted;
  const blocks = check.blockMs !== undefined && one.blockedUntilMs <= nowMs;
  const blockedUntilMs = blocks ? nowMs + (check.blockMs ?? 0) : one.blockedUntilMs;
  const reading = { ...one, state: counted.state, room: counted.room };
  return {
    ...counted,
    changed: counted.changed || blocks,
    blockedUntilMs,
    retryMs: retryMs(check, reading, blockedUntilMs, nowMs),
  };
}

function toOutcome(counted: Counted, operation: Operation, nowMs: number): Outcome {
  const { moved } = counted;
  if (moved) {
    const asked = operation === 'take' || operation === 'peek';
    const usableMs = Math.max(0, moved.usableUntilMs - nowMs);
    const outcome = transfer(operation === 'refund' || operation === 'settle', moved.untilMs, usableMs);
    return asked ? { ...outcome, transferredTo: moved.owner } : outcome;
  }
  const { allowed, room, resetAtMs, blockedUntilMs, granted, delayMs } = counted;
  return {
    allowed,
    remaining: blockedUntilMs > nowMs ? 0 : Math.max(0, room),
    resetAtMs: Math.max(resetAtMs, blockedUntilMs),
    retryAfterMs: Number.isFinite(counted.retryMs) ? counted.retryMs : undefined,
    granted,
    delayMs,
  };
}

/** A bug of the caller: rules are validated long before they become checks. */
export class BadCheckError extends Error {
  constructor(index: number, problem: string) {
    super(`check ${index + 1}: ${problem}`);
    this.name = 'BadCheckError';
  }
}

function assertUsable(check: Check, operation: Operation, index: number): void {
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
