// Holds the seats of an admitted request: renews them until the request ends, then gives them back. If the Worker dies,
// they expire.
import type { Ledger } from './ledger.ts';

export interface Held {
  /** Aborts when a seat is lost: the connection must then close. */
  readonly lost: AbortSignal;
  /** Resolves when all seats have been given back. Further calls do nothing. */
  end(): Promise<void>;
}

/** Timers count in 32 bits. A longer one would fire at once, again and again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Undefined if there is no seat. Renews three times within a lifetime, so that one failure does no harm. */
export function holdSeats(ledger: Pick<Ledger, 'seatMs' | 'renew' | 'release'>): Held | undefined {
  const { seatMs } = ledger;
  if (seatMs === undefined) return undefined;
  const losing = new AbortController();
  let isOver = false;
  const renew = async () => {
    const isHeld = await ledger.renew();
    if (isHeld || isOver) return;
    clearInterval(timer);
    losing.abort();
  };
  let renewing = Promise.resolve();
  const timer = setInterval(
    () => {
      renewing = renew();
    },
    Math.min(Math.ceil(seatMs / 3), LONGEST_TIMER_MS),
  );
  return {
    lost: losing.signal,
    async end() {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      // Waits for a renewal in flight: it could take the seat again after the release.
      await renewing;
      await ledger.release();
    },
  };
}
