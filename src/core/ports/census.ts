// How many isolates share the limits of a region. Each counts itself in about once a minute and is told how many
// did; when the region's Redis is gone, it takes its share of a limit by the last number it was told.

const ASK_EVERY_MS = 60_000;
/** At first other isolates start too: the first one to ask would believe for a minute that it is alone. */
const ASK_EARLY_MS = 5_000;
const EARLY_QUESTIONS = 3;

/** The port to one region's list of isolates. */
export interface CensusBoard {
  /** Counts this isolate in; the number of isolates that did so lately, this one included. */
  present(isolateId: string, signal: AbortSignal): Promise<number>;
}

/** How many isolates share a region: told by the region about once a minute, assumed until then. */
export interface Census {
  /** Whether it is time to ask. True once per interval: calling it claims the turn. */
  isDue(nowMs: number): boolean;
  count(): number;
  /** Undefined until the region has told. */
  told(): number | undefined;
  /** What is no number of isolates is ignored. */
  tell(count: number): void;
}

/** This isolate is always one of them, so there is never none. */
export const isIsolateCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1;

export function createCensus({ assumed }: { readonly assumed: number }): Census {
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let asked = 0;
  let known: number | undefined;

  return {
    isDue(nowMs) {
      const sinceMs = nowMs - askedAtMs;
      // Asked in what is now the future: the clock was put back, and waiting for it could take for ever.
      if (sinceMs >= 0 && sinceMs < (asked < EARLY_QUESTIONS ? ASK_EARLY_MS : ASK_EVERY_MS)) return false;
      askedAtMs = nowMs;
      asked += 1;
      return true;
    },
    count: () => known ?? assumed,
    told: () => known,
    tell(count) {
      if (isIsolateCount(count)) known = count;
    },
  };
}
