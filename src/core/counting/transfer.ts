// How a region transfers its part of a counter to another region and asks for it back. docs/regions.md explains why.
import type { Check, RecallReply, TransferCheck, TransferReply } from './check.ts';
import { type Counter, type Counters, judge, liveTransferOf, type TransferRecord } from './counters.ts';

/**
 * A region transfers a counter this long after its last charge stopped counting. By then that charge is over by every other
 * region's clock, too, and a caller between two requests does not look idle.
 */
export const IDLE_MS = 5_000;

/** A key may live this much longer than its counters and the idle time: then fewer charges need a new expiry. */
export const SLACK_MS = 10_000;

/**
 * A region that has counted nothing lately transfers its part. A region that has counted transfers it, too, if the owner has
 * charged itself with as many units in the same window. A region never takes the part back early: it waits.
 */
export function transfer(check: TransferCheck, nowMs: number, counters: Counters): TransferReply {
  const { owner, termMs, holdMs } = check.transfer;
  const counter = counterFor(check, counters);
  const { transferred } = counter ?? {};
  const leftMs = Math.max(0, (counter?.expiresAtMs ?? 0) + (transferred ? 0 : IDLE_MS) - nowMs);
  // An owner that must give the part back waits a window longer, so that this region can count with it first.
  if (leftMs > 0 && transferred && (transferred.owner !== owner || transferred.isWanted))
    return {
      kind: 'refused',
      retryAfterMs: leftMs + (transferred.owner === owner ? check.windowMs : 0),
    };
  if (leftMs > 0 && !transferred && !isChargedElsewhere(check, counter, nowMs))
    return { kind: 'in-use', usedUnits: usedOf(check, counter, nowMs), retryAfterMs: leftMs };
  const untilMs = nowMs + Math.max(transferred ? leftMs : 0, termMs + holdMs);
  save(check, { owner, usableUntilMs: nowMs + termMs, isWanted: false }, untilMs, nowMs, counters);
  return { kind: 'transferred', untilMs };
}

export function recall(check: Check, nowMs: number, counters: Counters): RecallReply {
  const counter = counters.get(check.key, check.id);
  const moved = liveTransferOf(counter, nowMs);
  if (!moved || moved.isWanted) return 'unchanged';
  save(check, { ...moved, isWanted: true }, moved.untilMs, nowMs, counters);
  return 'recalled';
}

function counterFor({ key, id, algorithm }: Check, counters: Counters): Counter | undefined {
  const found = counters.get(key, id);
  return found?.transferred || found?.algorithm === algorithm ? found : undefined;
}

/** 0 while it is blocked: a block is no number of units that the owner could charge itself with. */
function usedOf(check: Check, counter: Counter | undefined, nowMs: number): number {
  const { room, capacity, blockedUntilMs } = judge(check, counter, nowMs);
  return blockedUntilMs > nowMs ? 0 : Math.max(0, Math.min(capacity, capacity - room));
}

function isChargedElsewhere(check: TransferCheck, counter: Counter | undefined, nowMs: number): boolean {
  const { windowMs, transfer } = check;
  const { units, atMs } = transfer.ownerCharge ?? { units: 0, atMs: nowMs };
  const isSameWindow = nowMs - (nowMs % windowMs) === atMs - (atMs % windowMs);
  const isBlocked = (counter?.blockedUntilMs ?? 0) > nowMs;
  return units > 0 && isSameWindow && !isBlocked && usedOf(check, counter, nowMs) <= units;
}

function save(
  { key, id, algorithm }: Check,
  { owner, usableUntilMs, isWanted }: TransferRecord,
  expiresAtMs: number,
  nowMs: number,
  counters: Counters,
) {
  const transferred = { owner, usableUntilMs, isWanted };
  const counter = { algorithm, state: undefined, blockedUntilMs: 0, expiresAtMs, transferred };
  counters.save(key, id, counter, nowMs);
}
