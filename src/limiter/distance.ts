// How far a region is from this isolate, in milliseconds there and back: measured by the calls that are made anyway.
import type { AfterResponse } from '../core/caller.ts';
import type { CounterStore } from '../core/counter-store.ts';

export interface Distance {
  /** Undefined as long as no call has been answered. */
  ms(): number | undefined;
  note(tookMs: number): void;
  /** How long a call may take, where a near one has so long. `isPatient`: also if nothing is known of the distance. */
  fitMs(nearMs: number, isPatient?: boolean): number;
  /** Whether it is known that a call within that time should be answered. */
  isFair(givenMs: number): boolean;
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
  let isUnreachable = false;

  const note = (tookMs: number) => {
    isUnreachable = false;
    known = known === undefined ? tookMs : known + (tookMs - known) * (tookMs > known ? UP : DOWN);
  };
  const fitMs = (nearMs: number, isPatient = false) => {
    const ownMs = known === undefined ? (isPatient && !isUnreachable ? UNKNOWN_MS : 0) : known * TIMES;
    return Math.max(nearMs, Math.min(LONGEST_MS, Math.ceil(ownMs)));
  };

  const probe = async () => {
    const startedAtMs = now();
    try {
      await store.probe(AbortSignal.timeout(MEASURE_MS));
      note(now() - startedAtMs);
    } catch {
      // Whoever asks it next hears of it.
      isUnreachable = true;
    }
  };

  return {
    ms: () => known,
    note,
    fitMs,
    isFair: (givenMs) =>
      known === undefined ? isUnreachable : givenMs >= Math.min(LONGEST_MS, known * TIMES),
    measure(afterResponse) {
      if (known !== undefined || Math.abs(now() - measuredAtMs) < MEASURE_MS) return;
      measuredAtMs = now();
      afterResponse(probe());
    },
  };
}
