// A coarse cap on what one isolate lets through uncounted: so many requests a second, of all callers together.

export interface IsolateCap {
  hasRoom(nowMs: number): boolean;
  /** After `hasRoom` has said so. */
  take(): void;
}

/** By whole seconds, which is coarse enough. 0: any number. */
export function createIsolateCap(perSecond: number): IsolateCap {
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
