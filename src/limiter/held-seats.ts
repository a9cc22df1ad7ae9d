// Seats from the decision on: renewed for as long as they are needed, then given back. If the Worker dies they expire.
import type { Ledger } from './ledger.ts';

export interface Held {
  /** Aborted when a seat is lost, and with it the right to be open. */
  readonly lost: AbortSignal;
  /** Resolves when everything has been given back. Once is enough. */
  end(): Promise<void>;
}

/** Undefined if there is nothing to hold. Renewed three times within a lifetime, so that one failure does no harm. */
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
    Math.ceil(seatMs / 3),
  );
  return {
    lost: losing.signal,
    async end() {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      // A renewal on its way may take again what is released meanwhile.
      await renewing;
      await ledger.release();
    },
  };
}
