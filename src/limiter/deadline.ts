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

/** Waits no longer than half of what is left: the rest is for what comes after. */
export async function waitHalf({ remainingMs }: Deadline, work: Promise<unknown>): Promise<void> {
  const { promise: isLate, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, remainingMs() / 2);
  await Promise.race([work, isLate]);
  clearTimeout(timer);
}
