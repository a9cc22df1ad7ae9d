// So many a second in one isolate: a coarse cap on requests that pass uncounted, and on look-ups of callers.

export interface PerSecondBudget {
  hasRoom(nowMs: number): boolean;
  /** After `hasRoom` has said so. */
  take(): void;
}

/** By whole seconds, which is coarse enough. 0: any number. */
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
