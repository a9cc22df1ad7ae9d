// The round trip from this isolate to a region, in milliseconds, measured on the calls that it makes anyway.
import type { AfterResponse } from '../core/ports/after-response.ts';
import type { CounterStore } from '../core/ports/counter-store.ts';

export interface Distance {
  /** Undefined as long as no call has been answered. */
  ms(): number | undefined;
  note(tookMs: number): void;
  /**
   * How long a call may take, if a call to a near region may take `nearMs`. With `isPatient`, a region of unknown
   * distance also gets more time.
   */
  fitMs(nearMs: number, isPatient?: boolean): number;
  /** Called after a timeout. If the distance is unknown, probes the region once more, with more time. */
  measure(afterResponse: AfterResponse): void;
}

/** A slower call moves the average by half, a faster one by little: slow calls must fit into the time, too. */
const SLOWER_WEIGHT = 0.5;
const FASTER_WEIGHT = 0.1;
/** A call may take this many times the average, up to LONGEST_MS. */
export const TIMEOUT_FACTOR = 2;
export const LONGEST_MS = 1_500;
const UNKNOWN_MS = 1_000;
const MEASURE_MS = 5_000;

export function createDistance(store: Pick<CounterStore, 'probe'>, now: () => number): Distance {
  let known: number | undefined;
  let measuredAtMs = Number.NEGATIVE_INFINITY;

  const note = (tookMs: number) => {
    known =
      known === undefined
        ? tookMs
        : known + (tookMs - known) * (tookMs > known ? SLOWER_WEIGHT : FASTER_WEIGHT);
  };
  const fitMs = (nearMs: number, isPatient = false) => {
    const ownMs = known === undefined ? (isPatient ? UNKNOWN_MS : 0) : known * TIMEOUT_FACTOR;
    return Math.max(nearMs, Math.min(LONGEST_MS, Math.ceil(ownMs)));
  };

  const probe = async () => {
    const startedAtMs = now();
    // Ignores a failure: the next call finds out what is wrong.
    const isThere = await store.probe(AbortSignal.timeout(MEASURE_MS)).then(
      () => true,
      () => false,
    );
    if (isThere) note(now() - startedAtMs);
  };

  return {
    ms: () => known,
    note,
    fitMs,
    measure(afterResponse) {
      if (known !== undefined || Math.abs(now() - measuredAtMs) < MEASURE_MS) return;
      measuredAtMs = now();
      afterResponse(probe());
    },
  };
}
