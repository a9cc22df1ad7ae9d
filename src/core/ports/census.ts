// How many isolates share the limits of a region. Each isolate reports about once a minute and learns the number. When
// the region's Redis is down, the isolate divides limits by the last number that it has learned.

/** The port to one region's list of isolates. */
export interface CensusBoard {
  /** Reports this isolate. Returns how many isolates have reported lately, this one included. */
  present(isolateId: string, signal: AbortSignal): Promise<number>;
}

/** How many isolates share a region. The isolate assumes a number until the region has reported one. */
export interface Census {
  /** Whether it is time to ask. Returns true once per interval: the caller that gets true must ask. */
  isDue(nowMs: number): boolean;
  count(): number;
  /** The last number from the region; undefined before the first. */
  told(): number | undefined;
  /** Ignores a value that is no valid number of isolates. */
  tell(count: number): void;
}

/** At least 1, because this isolate is one of them. */
export const isIsolateCount = (value: unknown): value is number =>
  typeof value === 'number' && Number.isInteger(value) && value >= 1;
