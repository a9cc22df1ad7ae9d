// How a region cedes its part of a counter to another region and asks for it back. docs/regions.md explains why.
import type { Cession, Check, Outcome } from './check.ts';
import { type Ceded, type Counter, type Counters, judge, movedOf } from './counters.ts';

/**
 * A region cedes a counter this long after its last charge stopped counting. By then that charge is over by every other
 * region's clock, too, and a caller between two requests does not look idle.
 */
export const IDLE_MS = 5_000;

/**
 * A region that has counted nothing lately cedes its part. A region that has counted cedes it, too, if the home has
 * charged itself with as many units in the same window. A region never takes the part back early: it waits.
 */
export const CESSIONS = {
  cede(check: Check, nowMs: number, counters: Counters): Outcome {
    const { home, termMs, holdMs } = check.cession as Cession;
    const counter = counterFor(check, counters);
    const { ceded } = counter ?? {};
    const leftMs = Math.max(0, (counter?.expiresAtMs ?? 0) + (ceded ? 0 : IDLE_MS) - nowMs);
    if (leftMs > 0 && ceded && (ceded.home !== home || ceded.isWanted))
      return cession(false, nowMs + leftMs, leftMs + (ceded.home === home ? check.windowMs : 0));
    if (leftMs > 0 && !ceded && !isChargedElsewhere(check, counter, nowMs))
      return { ...cession(false, nowMs, leftMs), remaining: usedOf(check, counter, nowMs) };
    const expiresAtMs = nowMs + Math.max(ceded ? leftMs : 0, termMs + holdMs);
    save(check, { home, usableUntilMs: nowMs + termMs, isWanted: false }, expiresAtMs, nowMs, counters);
    return cession(true, expiresAtMs);
  },

  reclaim(check: Check, nowMs: number, counters: Counters): Outcome {
    const counter = counters.get(check.key, check.id);
    const moved = movedOf(counter, nowMs);
    const isNew = moved !== undefined && !moved.isWanted;
    if (isNew) save(check, { ...moved, isWanted: true }, moved.untilMs, nowMs, counters);
    return cession(isNew, moved?.untilMs ?? nowMs);
  },
};

function counterFor({ key, id, algorithm }: Check, counters: Counters): Counter | undefined {
  const found = counters.get(key, id);
  return found?.ceded || found?.algorithm === algorithm ? found : undefined;
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
  to: Ceded,
  expiresAtMs: number,
  nowMs: number,
  counters: Counters,
) {
  const counter = { algorithm, state: undefined, blockedUntilMs: 0, expiresAtMs, ceded: to };
  counters.save(key, id, counter, nowMs);
}

export const cession = (allowed: boolean, resetAtMs: number, retryAfterMs = 0): Outcome => ({
  allowed,
  remaining: 0,
  resetAtMs,
  retryAfterMs,
  granted: 0,
  delayMs: 0,
});
