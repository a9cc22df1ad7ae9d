// Judges one check alone, by its counter as it is now.
import type { Reading } from './algorithms/algorithm.ts';
import { type AlgorithmId, algorithmOf } from './algorithms/registry.ts';
import type { Check } from './check.ts';

export interface Counter {
  readonly algorithm: AlgorithmId;
  readonly state: unknown;
  readonly blockedUntilMs: number;
  /** When the store may forget the counter. */
  readonly expiresAtMs: number;
  /** This region has ceded its part: it counts nothing until the record expires. */
  readonly ceded?: Ceded | undefined;
}

export interface Ceded {
  readonly home: string;
  /** The home may use this part until then. */
  readonly usableUntilMs: number;
  /** This region wants its part back, so it refuses renewals. */
  readonly isWanted: boolean;
}

/** A store of counters. It may drop expired ones. */
export interface Counters {
  get(key: string, id: string): Counter | undefined;
  /**
   * Saves a changed counter, or forgets it. With `nowMs`, the store may also drop expired counters of the key, if this
   * counter is forgotten or expires earlier than before.
   */
  save(key: string, id: string, counter: Counter | undefined, nowMs?: number): void;
}

export interface Moved extends Ceded {
  readonly untilMs: number;
}

export interface Judged extends Reading<unknown> {
  /** Set if this region has ceded the counter. */
  readonly moved: Moved | undefined;
  readonly check: Check;
  readonly blockedUntilMs: number;
  /** 0 if the cost fits; infinite if it never will. */
  readonly retryMs: number;
}

export const paramsOf = ({ limit, windowMs, borders, extra, seatId = '', want: kept = 0 }: Check) => ({
  limit,
  windowMs,
  borders,
  extra,
  seatId,
  kept,
});
export const fits = ({ retryMs }: Judged) => retryMs === 0;

/** The result of this check alone. */
export function judge(check: Check, counter: Counter | undefined, nowMs: number): Judged {
  const known = counter?.algorithm === check.algorithm && !counter.ceded ? counter : undefined;
  const reading = algorithmOf(check.algorithm).advance(known?.state, nowMs, paramsOf(check));
  const blockedUntilMs = known?.blockedUntilMs ?? 0;
  const moved = movedOf(counter, nowMs);
  return {
    ...reading,
    check,
    moved,
    blockedUntilMs,
    retryMs: retryMs(check, reading, blockedUntilMs, nowMs),
  };
}

export const movedOf = (counter: Counter | undefined, nowMs: number): Moved | undefined =>
  counter?.ceded && counter.expiresAtMs > nowMs
    ? { ...counter.ceded, untilMs: counter.expiresAtMs }
    : undefined;

export function retryMs(
  check: Check,
  reading: Reading<unknown>,
  blockedUntilMs: number,
  nowMs: number,
): number {
  if (check.cost > reading.capacity) return Number.POSITIVE_INFINITY;
  const waitMs =
    check.cost > reading.room
      ? algorithmOf(check.algorithm).waitMs(reading.state, nowMs, paramsOf(check), check.cost)
      : 0;
  return Math.max(waitMs, blockedUntilMs - nowMs, 0);
}
