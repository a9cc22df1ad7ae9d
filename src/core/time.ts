// What Weir asks of the time that it is given: whether a moment is recent, and how much of a second's budget is left.

/** A clock may be put back. A moment that then lies far ahead is not recent, so that nobody waits for it. */
export const isRecent = (atMs: number, nowMs: number, withinMs: number): boolean =>
  Math.abs(nowMs - atMs) < withinMs;

/** A coarse cap in each second of an isolate. */
export interface PerSecondBudget {
  hasRoom(nowMs: number): boolean;
  /** Call it only after `hasRoom`. */
  take(): void;
}

/** Counts by whole seconds, which is exact enough here. 0 means no cap. */
export function createPerSecondBudget(perSecond: number): PerSecondBudget {
  let second = Number.NaN;
  let taken = 0;
  return {
    hasRoom(nowMs) {
      const current = Math.floor(nowMs / 1_000);
      if (current !== second) [second, taken] = [current, 0];
      return perSecond === 0 || taken < perSecond;
    },
    take() {
      taken += 1;
    },
  };
}

// A budget per second that its holders share fairly: a holder gets one more unit while it has taken fewer units in this
// second than the budget has left. So one holder alone gets half of the budget, and n greedy holders together leave one
// part in n + 1 for the next holder.

export interface FairBudget {
  /** Undefined if the holder has had its part. Otherwise the unit is taken, and this function gives it back. */
  take(holder: string, nowMs: number): GiveBack | undefined;
}

/** Does nothing once the second of the unit is over. */
export type GiveBack = () => void;

export function createFairBudget(perSecond: number): FairBudget {
  let second = Number.NaN;
  let left = perSecond;
  // Has at most `perSecond` entries, because only units that were taken are noted.
  const takenBy = new Map<string, number>();

  const change = (holder: string, units: number) => {
    left -= units;
    takenBy.set(holder, (takenBy.get(holder) ?? 0) + units);
  };

  return {
    take(holder, nowMs) {
      const current = Math.floor(nowMs / 1_000);
      if (current !== second) {
        second = current;
        left = perSecond;
        takenBy.clear();
      }
      if ((takenBy.get(holder) ?? 0) >= left) return undefined;
      change(holder, 1);
      return () => {
        if (second === current) change(holder, -1);
      };
    },
  };
}
