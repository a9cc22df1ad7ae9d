// Finds out, after responses, what requests should not wait for: whether a region that is out is back, and whether a
// script that failed for one request fails for all of them. An isolate asks a region only so often.

import type { AfterResponse } from '../core/matching/caller.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import { type Breaker, type Permit, PROBE_MS } from '../core/regions/breaker.ts';
import type { Distance } from './distance.ts';

export interface RegionWatch {
  /** A call to the region has failed with this. */
  note(error: unknown): void;
  /** Asks the region what there is to find out, if anything. */
  look(afterResponse: AfterResponse): void;
}

export interface WatchReports {
  /** The server said this about the script; `isBroken`: it cannot run it for anybody. */
  readonly onScriptFailed: (said: string, isBroken: boolean) => void;
  /** What is no failure of a store is a mistake in Weir. */
  readonly onBug: (error: unknown) => void;
}

export interface RegionWatchOptions extends WatchReports {
  readonly store: Pick<CounterStore, 'probe'>;
  readonly breaker: Breaker;
  /** As much as a request would give the region. */
  readonly probeMs: number;
  readonly distance: Distance;
  readonly now: () => number;
}

/** A rule that the script cannot count for is met by every request: it is not looked into for each of them. */
const SCRIPT_EVERY_MS = 10_000;

export function createRegionWatch(options: RegionWatchOptions): RegionWatch {
  const { store, breaker, distance, probeMs, now, onScriptFailed, onBug } = options;
  /** What the server said of a call, as long as nobody has looked into it. */
  let said: string | undefined;
  let judgedAtMs = Number.NEGATIVE_INFINITY;

  /** What the region fails with, if it does. */
  const probe = async (): Promise<CounterStoreError | undefined> => {
    try {
      await store.probe(AbortSignal.timeout(Math.floor(Math.min(distance.fitMs(probeMs), PROBE_MS))));
    } catch (error) {
      if (error instanceof CounterStoreError) return error;
      onBug(error);
    }
    return undefined;
  };

  /** One probe after the other, until they have closed the breaker or one has found the region still out. */
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
    // Before the answer: nobody else asks meanwhile.
    judgedAtMs = now();
    const error = await probe();
    if (isOutage(error)) return;
    judge(error?.message ?? ofCall, error !== undefined);
  };

  // A clock that was put back must not keep it from looking.
  const isJudged = () => Math.abs(now() - judgedAtMs) < SCRIPT_EVERY_MS;

  return {
    note(error) {
      if (!(error instanceof CounterStoreError)) onBug(error);
      else if (error.failure === 'script-failed') said = error.message;
    },

    look(afterResponse) {
      // Mostly all is well, and then nothing is looked up after a request.
      if (said === undefined && breaker.enter() !== undefined) return;
      const permit = breaker.probe(now());
      if (permit !== undefined) afterResponse(probeOutage(permit));
      else if (said !== undefined && !isJudged()) afterResponse(probeScript(said));
    },
  };
}

/** A script that fails was run, or refused, by a server that is well. */
const isOutage = (error: CounterStoreError | undefined): boolean =>
  error !== undefined && error.failure !== 'script-failed';
