// How a region transfers its part of a counter to another region and asks for it back. docs/regions.md explains why.
import type { Check, Outcome, TransferTerms } from './check.ts';
import { type Counter, type Counters, judge, movedOf, type Transferred } from './counters.ts';

/**
 * A region transfers a counter this long after its last charge stopped counting. By then that charge is over by every other
 * region's clock, too, and a caller between two requests does not look idle.
 */
export const IDLE_MS = 5_000;

/**
 * A region that has counted nothing lately transfers its part. A region that has counted transfers it, too, if the owner has
 * charged itself with as many units in the same window. A region never takes the part back early: it waits.
 */
export const CESSIONS = {
  transfer(check: Check, nowMs: number, counters: Counters): Outcome {
    const { owner, termMs, holdMs } = check.transfer as TransferTerms;
    const counter = counterFor(check, counters);
    const { transferred } = counter ?? {};
    const leftMs = Math.max(0, (counter?.expiresAtMs ?? 0) + (transferred ? 0 : IDLE_MS) - nowMs);
    if (leftMs > 0 && transferred && (transferred.owner !== owner || transferred.isWanted))
      return transfer(false, nowMs + leftMs, leftMs + (transferred.owner === owner ? check.windowMs : 0));
    if (leftMs > 0 && !transferred && !isChargedElsewhere(check, counter, nowMs))
      return { ...transfer(false, nowMs, leftMs), remaining: usedOf(check, counter, nowMs) };
    const expiresAtMs = nowMs + Math.max(transferred ? leftMs : 0, termMs + holdMs);
    save(check, { owner, usableUntilMs: nowMs + termMs, isWanted: false }, expiresAtMs, nowMs, counters);
    return transfer(true, expiresAtMs);
  },

  recall(check: Check, nowMs: number, counters: Counters): Outcome {
    const counter = counters.get(check.key, check.id);
    const moved = movedOf(counter, nowMs);
    const isNew = moved !== undefined && !moved.isWanted;
    if (isNew) save(check, { ...moved, isWanted: true }, moved.untilMs, nowMs, counters);
    return transfer(isNew, moved?.untilMs ?? nowMs);
  },
};

function counterFor({ key, id, algorithm }: Check, counters: Counters): Counter | undefined {
  const found = counters.get(key, id);
  return found?.transferred || found?.algorithm === algorithm ? found : undefined;
}

function usedOf(check: Check, counter: Counter | undefined, nowMs: number): number {
  const { room, capacity, blockedUntilMs } = judge(check, counter, nowMs);
  return blockedUntilMs > nowMs ? 0 : Math.max(0, Math.min(capacity, capacity - room));
}

function isChargedElsewhere(check: Check, counter: Counter | undefined, nowMs: number): boolean {
  const { want = 0, windowMs, chargedAtMs = nowMs } = check;
  const isSameWindow = nowMs - (nowMs % windowMs) === chargedAtMs - (chargedAtMs % windowMs);
  const isBlocked = (counter?.blockedUntilMs ?? 0) > nowMs;
  return want > 0 && isSameWindow && !isBlocked && usedOf(check, counter, nowMs) <= want;
}

function save(
  { key, id, algorithm }: Check,
  to: Transferred,
  expiresAtMs: number,
  nowMs: number,
  counters: Counters,
) {
  const counter = { algorithm, state: undefined, blockedUntilMs: 0, expiresAtMs, transferred: to };
  counters.save(key, id, counter, nowMs);
}

export const transfer = (allowed: boolean, resetAtMs: number, retryAfterMs = 0): Outcome => ({
  allowed,
  remaining: 0,
  resetAtMs,
  retryAfterMs,
  granted: 0,
  delayMs: 0,
});
