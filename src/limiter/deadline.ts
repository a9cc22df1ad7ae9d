// The deadline of a whole decision. All attempts of the decision share this time.

import type { AfterResponse } from '../core/ports/telemetry.ts';

export const createDeadline = (totalMs: number, now: () => number, nowMs = now()): Deadline =>
  new Deadline(totalMs, now, nowMs);

/** A class, because every request has a deadline, and the methods of a class are made once. */
export class Deadline {
  /**
   * Keeps the shape of the class alive. If no object has this shape, V8's garbage collector drops the shape, and with
   * it all machine code that V8 has compiled for it.
   */
  static readonly kept: Deadline = new Deadline(0, () => 0, 0);

  readonly totalMs: number;
  readonly #endsAtMs: number;
  readonly #now: () => number;
  #leastMs: number;

  constructor(totalMs: number, now: () => number, nowMs: number) {
    this.totalMs = totalMs;
    this.#endsAtMs = nowMs + totalMs;
    this.#now = now;
    this.#leastMs = totalMs;
  }

  /** 0 once it is over. */
  remainingMs(): number {
    // A clock that is put back must not extend the deadline.
    this.#leastMs = Math.min(this.#leastMs, Math.max(0, this.#endsAtMs - this.#now()));
    return this.#leastMs;
  }

  /** Aborts after `mostMs`, or when the deadline is over, whichever comes first. */
  signal(mostMs = this.totalMs): AbortSignal {
    const ms = Math.floor(Math.min(mostMs, this.remainingMs()));
    return ms > 0 ? AbortSignal.timeout(ms) : AbortSignal.abort();
  }
}

/** Waits for at most half of the time left, so that later steps have time, too. */
export const waitHalf = <T>(deadline: Pick<Deadline, 'remainingMs'>, work: Promise<T>, late: T): Promise<T> =>
  waitAtMost(deadline.remainingMs() / 2, work, late);

/** Answers `late` after this time. The work goes on. */
export async function waitAtMost<T>(ms: number, work: Promise<T>, late: T): Promise<T> {
  const isLate = Promise.withResolvers<T>();
  const timer = setTimeout(() => isLate.resolve(late), ms);
  return Promise.race([work, isLate.promise]).finally(() => clearTimeout(timer));
}

// When a client leaves, the runtime drops the rest of its request, except for work that was handed over to it. Handing
// over costs as much as reading five headers, so a request does it only if something would be lost.

/** Hands the work over. The request that waits for the work gets its errors. */
export const keepAlive = (
  work: Promise<unknown>,
  { afterResponse }: { readonly afterResponse: AfterResponse },
): void => afterResponse(work.then(nothing, nothing));

const nothing = () => {};
