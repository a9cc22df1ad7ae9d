// A region as the limiter sees it: how to call it, whether it works, and how far away it is.

import type { DegradedReason } from '../core/decision.ts';
import { type CounterStore, CounterStoreError, type RulesPointer } from '../core/ports/region.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { type Breaker, type Permit, PROBE_MS } from '../core/regions/breaker.ts';
import type { Census } from '../core/regions/census.ts';
import { isRecent } from '../core/time.ts';

export interface LimiterRegion {
  readonly name: string;
  /** The other regions, nearest to this one first. They stand in for this one in this order: see next-region.ts. */
  readonly neighbours: readonly string[];
  readonly store: CounterStore;
  readonly pointer: RulesPointer;
  readonly breaker: Breaker;
  readonly watch: RegionWatch;
  readonly distance: Distance;
  readonly census: Census;
  /** A cluster may take charges back within a call: see redis/counter-store.ts. */
  readonly isCluster: boolean;
}

/** Whether requests may call the region. */
export const isClosed = ({ breaker }: LimiterRegion): boolean => breaker.enter() !== undefined;

/** Nearest first. */
export type Regions = readonly [LimiterRegion, ...LimiterRegion[]];

/** If a region had at least this part of the deadline, a timeout is its fault. */
export const FAIR_PART = 0.25;

/** A region has not answered. */
export interface RegionFailure {
  readonly kind: 'unanswered';
  readonly reason: DegradedReason;
  /** The region got the call, so it may have charged the checks. */
  readonly isInDoubt: boolean;
  /** The region did not get the time that an answer takes. */
  readonly isTooLate: boolean;
}

/** The breaker is not closed, so the region is not called. */
export const NOT_ASKED = failure('breaker-open');
/** The request has no time left for the call. */
export const NO_TIME = failure('timeout', { isTooLate: true });

function failure(
  reason: DegradedReason,
  { isInDoubt = false, isTooLate = false }: Partial<RegionFailure> = {},
): RegionFailure {
  return { kind: 'unanswered', reason, isInDoubt, isTooLate };
}

/** A call that a breaker has let through. */
export interface PermittedCall {
  readonly region: LimiterRegion;
  readonly permit: Permit;
  readonly sentAtMs: number;
  /** The region has enough time, so a timeout is its fault. */
  readonly isFair: boolean;
}

/** The region has answered the call. */
export function noteAnswer({ region, permit, sentAtMs }: PermittedCall, nowMs: number): void {
  region.breaker.succeed(permit, nowMs);
  region.distance.note(nowMs - sentAtMs);
}

/** The call has failed. */
export function noteFailure(
  { region, permit, isFair }: PermittedCall,
  error: unknown,
  nowMs: number,
): RegionFailure {
  const reason = reasonOf(error);
  region.watch.note(error);
  const isTooLate = reason === 'timeout' && !isFair;
  if (reason === 'script-failed') region.breaker.succeed(permit, nowMs);
  else if (reason !== 'internal-error' && !isTooLate) region.breaker.fail(permit, nowMs);
  return failure(reason, { isInDoubt: true, isTooLate });
}

/** Gives every error a reason, bugs included, because no request may fail because of the limiter. */
export const reasonOf = (error: unknown): DegradedReason =>
  error instanceof CounterStoreError ? error.failure : 'internal-error';

export interface AskOptions<T> extends Pick<PermittedCall, 'region' | 'isFair'> {
  readonly ask: () => Promise<T>;
  readonly now: () => number;
}

/** Calls a region if its breaker is closed. */
export async function askRegion<T>({
  region,
  isFair,
  now,
  ask,
}: AskOptions<T>): Promise<RegionFailure | { readonly kind: 'answered'; readonly answer: T }> {
  const permit = region.breaker.enter();
  if (permit === undefined) return NOT_ASKED;
  const call = { region, permit, isFair, sentAtMs: now() };
  try {
    const answer = await ask();
    noteAnswer(call, now());
    return { kind: 'answered', answer };
  } catch (error) {
    return noteFailure(call, error, now());
  }
}

// Probes regions after responses, so that no request waits. A probe finds out whether a failed region is back, and
// whether a script that failed for one request fails for all requests. Each isolate limits how often it probes.

export type RegionWatch = ReturnType<typeof createRegionWatch>;

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

export function createRegionWatch(options: RegionWatchOptions) {
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

  const isJudged = () => isRecent(judgedAtMs, now(), SCRIPT_EVERY_MS);

  return {
    /** Notes the error of a failed call to the region. */
    note(error: unknown): void {
      if (!(error instanceof CounterStoreError)) onBug(error);
      else if (error.failure === 'script-failed') said = error.message;
    },

    /** Probes the region, if there is something to find out. */
    look(afterResponse: AfterResponse): void {
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

// The round trip from this isolate to a region, in milliseconds, measured on the calls that it makes anyway.

export type Distance = ReturnType<typeof createDistance>;

/** A slower call moves the average by half, a faster one by little: slow calls must fit into the time, too. */
const SLOWER_WEIGHT = 0.5;
const FASTER_WEIGHT = 0.1;
/** A call may take this many times the average, up to LONGEST_MS. */
export const TIMEOUT_FACTOR = 2;
export const LONGEST_MS = 1_500;
const UNKNOWN_MS = 1_000;
const MEASURE_MS = 5_000;

export function createDistance(store: Pick<CounterStore, 'probe'>, now: () => number) {
  let known: number | undefined;
  let measuredAtMs = Number.NEGATIVE_INFINITY;

  const note = (tookMs: number) => {
    known =
      known === undefined
        ? tookMs
        : known + (tookMs - known) * (tookMs > known ? SLOWER_WEIGHT : FASTER_WEIGHT);
  };

  /**
   * How long a call may take, if a call to a near region may take `nearMs`. With `isPatient`, a region of unknown
   * distance also gets more time.
   */
  const fitMs = (nearMs: number, isPatient = false): number => {
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
    /** Undefined as long as no call has been answered. */
    ms: () => known,
    note,
    fitMs,
    /** Called after a timeout. If the distance is unknown, probes the region once more, with more time. */
    measure(afterResponse: AfterResponse): void {
      if (known !== undefined || isRecent(measuredAtMs, now(), MEASURE_MS)) return;
      measuredAtMs = now();
      afterResponse(probe());
    },
  };
}
