// A budget per second and isolate: a coarse cap on uncounted requests and on look-ups of callers.

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
