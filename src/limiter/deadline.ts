// The deadline of a whole decision. Every attempt on the way draws on the same time.

export interface Deadline {
  readonly totalMs: number;
  /** 0 once it is over. */
  remainingMs(): number;
  /** Aborts after `mostMs`, or when the deadline is over, whichever comes first. */
  signal(mostMs?: number): AbortSignal;
}

export function createDeadline(totalMs: number, now: () => number): Deadline {
  const endsAtMs = now() + totalMs;
  let leastMs = totalMs;
  const remainingMs = () => {
    // A clock that is put back must not extend the deadline.
    leastMs = Math.min(leastMs, Math.max(0, endsAtMs - now()));
    return leastMs;
  };
  return {
    totalMs,
    remainingMs,
    signal(mostMs = totalMs) {
      const ms = Math.floor(Math.min(mostMs, remainingMs()));
      return ms > 0 ? AbortSignal.timeout(ms) : AbortSignal.abort();
    },
  };
}

/**
 * Waits for at most half of the time left, then answers `late`, so that later steps have time, too. The work goes on.
 */
export async function waitHalf<T>(
  { remainingMs }: Pick<Deadline, 'remainingMs'>,
  work: Promise<T>,
  late: T,
): Promise<T> {
  const isLate = Promise.withResolvers<T>();
  const timer = setTimeout(() => isLate.resolve(late), remainingMs() / 2);
  return Promise.race([work, isLate.promise]).finally(() => clearTimeout(timer));
}
