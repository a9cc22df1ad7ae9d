// The time that a whole decision has: whatever is tried on the way draws on the same one.

export interface Deadline {
  readonly totalMs: number;
  /** 0 once it is over. */
  remainingMs(): number;
  /** Aborts after so long, or when the deadline is over, whichever comes first. */
  signal(mostMs?: number): AbortSignal;
}

export function createDeadline(totalMs: number, now: () => number): Deadline {
  const endsAtMs = now() + totalMs;
  let leastMs = totalMs;
  const remainingMs = () => {
    // A clock that is put back must not make it longer.
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

/** Waits no longer than half of what is left, then answers `late`: the rest is for what comes after. The work goes on. */
export async function waitHalf<T>(
  { remainingMs }: Pick<Deadline, 'remainingMs'>,
  work: Promise<T>,
  late: T,
): Promise<T> {
  const isLate = Promise.withResolvers<T>();
  const timer = setTimeout(() => isLate.resolve(late), remainingMs() / 2);
  return Promise.race([work, isLate.promise]).finally(() => clearTimeout(timer));
}
