// A budget per second that its holders share fairly: a holder gets one more unit while it has taken fewer units in this
// second than the budget has left. So one holder alone gets half of the budget, and n greedy holders together leave one
// part in n + 1 for whoever comes next.

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
