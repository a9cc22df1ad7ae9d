// The twin of lua/counters.lua on counters in memory: judges the checks of one request and charges all of them, or
// none. Tests compare the script with it, and the isolate counts with it when Redis is down.
import { algorithmOf } from './algorithms/registry.ts';
import { CESSIONS, cession } from './ceding.ts';
import { type Answer, type Check, type Operation, type Outcome, problemOf } from './check.ts';
import { type Counters, fits, type Judged, judge, type Moved, paramsOf, retryMs } from './judging.ts';

export function runChecks(
  operation: Operation,
  checks: readonly Check[],
  nowMs: number,
  counters: Counters,
): Answer {
  checks.forEach((check, i) => {
    assertUsable(check, operation, i);
  });
  if (operation === 'cede' || operation === 'reclaim')
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
  Exclude<Operation, 'cede' | 'reclaim'>,
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
    const outcome = cession(operation === 'refund' || operation === 'settle', moved.untilMs, usableMs);
    return asked ? { ...outcome, cededTo: moved.home } : outcome;
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
