// Probes regions after responses, so that no request waits. A probe finds out whether a failed region is back, and
// whether a script that failed for one request fails for all requests. Each isolate limits how often it probes.

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
  /** Called with the server's error about the script. `isBroken`: the server cannot run the script for any request. */
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

/** The script may fail for a rule that applies to every request. Not every request should probe the script. */
const SCRIPT_EVERY_MS = 10_000;

export function createRegionWatch(options: RegionWatchOptions): RegionWatch {
  const { store, breaker, distance, probeMs, now, onScriptFailed, onBug } = options;
  /** The server's error, until a probe has examined it. */
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
    // Set before the answer arrives, so that no other request probes meanwhile.
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
      // The usual case: the region works, and there is nothing to probe.
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
