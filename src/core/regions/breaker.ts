// A circuit breaker for each region and isolate. Closed: every request calls the region, and the breaker keeps the last
// results. Open: no request calls it, which costs no time. Half-open: a few probes call it after responses, and their
// results decide, so no request waits for a failed region. The breaker has counters and times only: no timers, and no
// promise shared between requests.

import { isRecent } from '../time.ts';

export type BreakerState = 'closed' | 'open' | 'half-open';

/**
 * Permission for one call. The request reports the result, or never does if it is cancelled. A permit counts only in
 * the generation in which it was given; every change of state ends the generation.
 */
export type Permit = number;

export interface Breaker {
  state(nowMs: number): BreakerState;
  /** For a request. Undefined if the breaker is not closed. */
  enter(): Permit | undefined;
  /** For a probe after a response. Undefined if no probe is needed now. */
  probe(nowMs: number): Permit | undefined;
  succeed(permit: Permit, nowMs: number): void;
  fail(permit: Permit, nowMs: number): void;
  /** The last call has succeeded, a moment ago. */
  isFresh(nowMs: number): boolean;
}

export interface BreakerOptions {
  /** From 0 to 1, for the jitter: isolates should not all return at the same moment. */
  readonly random: () => number;
  readonly onChange?: ((state: BreakerState) => void) | undefined;
}

/**
 * The breaker looks at the last SLIDING_COUNT calls of the last minute. It opens when at least FEWEST_FAILURES of them,
 * and at least half, have failed; or when the last FEWEST_FAILURES have failed, so that a region that stops answering
 * delays no more requests of a busy isolate than of any other. With a shorter period, the breaker of an isolate with a
 * request every few seconds would never open.
 */
const SLIDING_COUNT = 20;
const SLIDING_MS = 60_000;
const FEWEST_FAILURES = 5;
const FAILURE_RATE = 0.5;
/** With a jitter of a quarter. */
const OPEN_MS = 1_000;
const LONGEST_OPEN_MS = OPEN_MS * 1.25;
const PROBES = 3;
/** If all clients leave before a region answers, the breaker notices at most this much later that the region hangs. */
const FRESH_MS = 1_000;
/** A probe without a result after this time is lost. */
export const PROBE_MS = 1_000;

export function createBreaker({ random, onChange }: BreakerOptions): Breaker {
  let state: BreakerState = 'closed';
  let generation = 0;
  // The last calls, in a ring. Every request writes it; only a failure reads it.
  const failed = new Uint8Array(SLIDING_COUNT);
  const endedAtMs = new Float64Array(SLIDING_COUNT).fill(Number.NEGATIVE_INFINITY);
  let next = 0;
  let openUntilMs = 0;
  let probes = { granted: 0, succeeded: 0, lastAtMs: 0 };

  const become = (changed: BreakerState) => {
    state = changed;
    generation += 1;
    endedAtMs.fill(Number.NEGATIVE_INFINITY);
    probes = { granted: 0, succeeded: 0, lastAtMs: 0 };
    onChange?.(changed);
  };
  const open = (nowMs: number) => {
    openUntilMs = nowMs + OPEN_MS * (0.75 + random() / 2);
    become('open');
  };
  /** A clock that was put back must not keep the breaker open for longer. */
  const isOver = (nowMs: number) => nowMs >= openUntilMs || openUntilMs - nowMs > LONGEST_OPEN_MS;

  const grantProbe = (nowMs: number): Permit | undefined => {
    const areLost = !isRecent(probes.lastAtMs, nowMs, PROBE_MS);
    if (areLost) probes.granted = probes.succeeded;
    if (probes.granted >= PROBES) return undefined;
    probes.granted += 1;
    probes.lastAtMs = nowMs;
    return generation;
  };

  const record = (hasFailed: boolean, nowMs: number) => {
    failed[next] = Number(hasFailed);
    endedAtMs[next] = nowMs;
    next = (next + 1) % SLIDING_COUNT;
    if (hasFailed && failsTooOften(nowMs)) open(nowMs);
  };

  const failsTooOften = (nowMs: number) => {
    let recent = 0;
    let failures = 0;
    let inARow = 0;
    // From the oldest call to the newest.
    for (let i = next; i < next + SLIDING_COUNT; i += 1) {
      const place = i % SLIDING_COUNT;
      if (!isRecent(endedAtMs[place] ?? 0, nowMs, SLIDING_MS)) continue;
      recent += 1;
      failures += failed[place] ?? 0;
      inARow = failed[place] ? inARow + 1 : 0;
    }
    return inARow >= FEWEST_FAILURES || (failures >= FEWEST_FAILURES && failures >= recent * FAILURE_RATE);
  };

  return {
    state: (nowMs) => (state === 'open' && isOver(nowMs) ? 'half-open' : state),

    enter: () => (state === 'closed' ? generation : undefined),

    probe(nowMs) {
      if (state === 'closed') return undefined;
      if (state === 'open') {
        if (!isOver(nowMs)) return undefined;
        become('half-open');
      }
      return grantProbe(nowMs);
    },

    succeed(permit, nowMs) {
      if (permit !== generation) return;
      if (state === 'closed') return record(false, nowMs);
      probes.succeeded += 1;
      if (probes.succeeded >= PROBES) become('closed');
    },

    fail(permit, nowMs) {
      if (permit !== generation) return;
      if (state === 'closed') record(true, nowMs);
      else open(nowMs);
    },

    isFresh(nowMs) {
      const last = (next + SLIDING_COUNT - 1) % SLIDING_COUNT;
      return failed[last] === 0 && isRecent(endedAtMs[last] ?? 0, nowMs, FRESH_MS);
    },
  };
}
