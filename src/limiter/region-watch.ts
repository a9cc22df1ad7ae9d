// Probes regions after responses, so that no request waits: is a failed region back, and does a script that failed for
// one request fail for all of them? An isolate probes a region only so often.

import type { AfterResponse } from '../core/ports/after-response.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { type Breaker, type Permit, PROBE_MS } from '../core/regions/breaker.ts';
import type { Distance } from './distance.ts';

export interface RegionWatch {
  /** Notes the error of a failed call to the region. */
  note(error: unknown): void;
  /** Probes the region, if there is something to find out. */
  look(afterResponse: AfterResponse): void;
}

export interface WatchReports {
  /** The server said this about the script; `isBroken`: it cannot run it for anybody. */
  readonly onScriptFailed: (said: string, isBroken: boolean) => void;
  /** Called with errors that are not failures of a store: those are bugs in Weir. */
  readonly onBug: (error: unknown) => void;
}

export interface RegionWatchOptions extends WatchReports {
  readonly store: Pick<CounterStore, 'probe'>;
  readonly breaker: Breaker;
  /** As much time as a request would give the region. */
  readonly probeMs: number;
  readonly distance: Distance;
  readonly now: () => number;
}

/** The script may fail for a rule that every request meets. Not every request should look into that. */
const SCRIPT_EVERY_MS = 10_000;

export function createRegionWatch(options: RegionWatchOptions): RegionWatch {
  const { store, breaker, distance, probeMs, now, onScriptFailed, onBug } = options;
  /** The server's error, until somebody has looked into it. */
  let said: string | undefined;
  let judgedAtMs = Number.NEGATIVE_INFINITY;

  /** The region's failure; undefined if it answers. */
  const probe = async (): Promise<CounterStoreError | undefined> => {
    try {
      await store.probe(AbortSignal.timeout(Math.floor(Math.min(distance.fitMs(probeMs), PROBE_MS))));
    } catch (error) {
      if (error instanceof CounterStoreError) return error;
      onBug(error);
    }
    return undefined;
  };

  /** Probes the region until the breaker closes, or until a probe fails. */
  const probeOutage = async (first: Permit) => {
    for (let permit: Permit | undefined = first; permit !== undefined; permit = breaker.probe(now())) {
      const error = await probe();
      if (isOutage(error)) return breaker.fail(permit, now());
      breaker.succeed(permit, now());
      if (error) judge(error.message, true);
    }
  };

  const judge = (words: string, isBroken: boolean) => {
    said = undefined;
    judgedAtMs = now();
    onScriptFailed(words, isBroken);
  };

  const probeScript = async (ofCall: string) => {
    // Set before the answer comes, so that nobody else asks meanwhile.
    judgedAtMs = now();
    const error = await probe();
    if (isOutage(error)) return;
    judge(error?.message ?? ofCall, error !== undefined);
  };

  // `abs`, because a clock that was put back must not stop the probes.
  const isJudged = () => Math.abs(now() - judgedAtMs) < SCRIPT_EVERY_MS;

  return {
    note(error) {
      if (!(error instanceof CounterStoreError)) onBug(error);
      else if (error.failure === 'script-failed') said = error.message;
    },

    look(afterResponse) {
      // The usual case: all is well, and nothing more is to be done.
      if (said === undefined && breaker.enter() !== undefined) return;
      const permit = breaker.probe(now());
      if (permit !== undefined) afterResponse(probeOutage(permit));
      else if (said !== undefined && !isJudged()) afterResponse(probeScript(said));
    },
  };
}

/** A failed script is no outage: the server has run or refused it. */
const isOutage = (error: CounterStoreError | undefined): boolean =>
  error !== undefined && error.failure !== 'script-failed';
