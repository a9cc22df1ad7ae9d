// How many isolates share the limits of a region. Each isolate reports about once a minute and learns the number. When
// the region's Redis is down, the isolate divides limits by the last number that it has learned.

export interface Census {
  /** The last number from the region; an assumed one before the first. */
  count(): number;
  /** Whether it is time to report. Returns true once per interval: the caller that gets true must report. */
  isDue(nowMs: number): boolean;
  /** Fails if the region does not answer. The isolate then keeps the last number until the next report is due. */
  report(isolateId: string, signal: AbortSignal): Promise<void>;
}

export interface CensusOptions {
  readonly assumed: number;
  /** Reports this isolate to the region. Returns how many have reported lately, this one included. */
  readonly present: (isolateId: string, signal: AbortSignal) => Promise<unknown>;
}

const REPORT_EVERY_MS = 60_000;
/** At first an isolate reports more often, because other isolates start at the same time. */
const REPORT_EARLY_MS = 5_000;
const EARLY_REPORTS = 3;

export function createCensus({ assumed, present }: CensusOptions): Census {
  let reportedAtMs = Number.NEGATIVE_INFINITY;
  let reports = 0;
  let count = assumed;

  return {
    count: () => count,
    isDue(nowMs) {
      const sinceMs = nowMs - reportedAtMs;
      // A negative time means that the clock was put back. Waiting for the old time could take for ever.
      if (sinceMs >= 0 && sinceMs < (reports < EARLY_REPORTS ? REPORT_EARLY_MS : REPORT_EVERY_MS))
        return false;
      reportedAtMs = nowMs;
      reports += 1;
      return true;
    },
    async report(isolateId, signal) {
      const reply = await present(isolateId, signal);
      // At least 1, because this isolate is one of them. Nothing else is believed.
      if (typeof reply === 'number' && Number.isInteger(reply) && reply >= 1) count = reply;
    },
  };
}
