// How far a region is from this isolate, in milliseconds there and back: measured by the calls that are made anyway.
import type { AfterResponse } from '../core/matching/caller.ts';
import type { CounterStore } from '../core/ports/counter-store.ts';

export interface Distance {
  /** Undefined as long as no call has been answered. */
  ms(): number | undefined;
  note(tookMs: number): void;
  /** How long a call may take, where a near one has so long. `isPatient`: also if nothing is known of the distance. */
  fitMs(nearMs: number, isPatient?: boolean): number;
  /** Nothing is known, because a call was not answered in time: asks once more, with more time. */
  measure(afterResponse: AfterResponse): void;
}

/** A slower call counts for half, a faster one for little: the time must fit those that are slow. */
const UP = 0.5;
const DOWN = 0.1;
/** A call may take so many times what others took, and no longer than this. */
const TIMES = 2;
const LONGEST_MS = 1_500;
const UNKNOWN_MS = 1_000;
const MEASURE_MS = 5_000;

export function createDistance(store: Pick<CounterStore, 'probe'>, now: () => number): Distance {
  let known: number | undefined;
  let measuredAtMs = Number.NEGATIVE_INFINITY;

  const note = (tookMs: number) => {
    known = known === undefined ? tookMs : known + (tookMs - known) * (tookMs > known ? UP : DOWN);
  };
  const fitMs = (nearMs: number, isPatient = false) => {
    const ownMs = known === undefined ? (isPatient ? UNKNOWN_MS : 0) : known * TIMES;
    return Math.max(nearMs, Math.min(LONGEST_MS, Math.ceil(ownMs)));
  };

  const probe = async () => {
    const startedAtMs = now();
    // The next call to it hears what is wrong.
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
