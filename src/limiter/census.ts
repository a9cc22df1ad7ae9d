// When an isolate reports to the census, and what it learns: see core/ports/census.ts.
import { type Census, isIsolateCount } from '../core/ports/census.ts';

const ASK_EVERY_MS = 60_000;
/** At first an isolate asks more often, because other isolates start at the same time. */
const ASK_EARLY_MS = 5_000;
const EARLY_QUESTIONS = 3;

export function createCensus({ assumed }: { readonly assumed: number }): Census {
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let asked = 0;
  let known: number | undefined;

  return {
    isDue(nowMs) {
      const sinceMs = nowMs - askedAtMs;
      // A negative time means that the clock was put back. Waiting for the old time could take for ever.
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
