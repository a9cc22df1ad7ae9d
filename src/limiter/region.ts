// Calls a region if its breaker is closed. After the response, region-watch.ts finds out whether a failed region is
// back.

import type { DegradedReason } from '../core/decision.ts';
import type { AnnouncementBoard } from '../core/ports/announcement.ts';
import type { Census, CensusBoard } from '../core/ports/census.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import type { Breaker, Permit } from '../core/regions/breaker.ts';
import type { Distance } from './distance.ts';
import type { RegionWatch } from './region-watch.ts';

/** A region as the limiter sees it. */
export interface LimiterRegion {
  readonly name: string;
  /** The other regions, nearest to this one first. They stand in for this one in this order: see stand-in.ts. */
  readonly neighbours: readonly string[];
  readonly store: CounterStore;
  readonly board: AnnouncementBoard;
  readonly breaker: Breaker;
  readonly watch: RegionWatch;
  readonly distance: Distance;
  readonly census: Census;
  readonly censusBoard: CensusBoard;
  /** A cluster may take charges back within a call: see redis/hash-slots.ts. */
  readonly isCluster: boolean;
}

/** Nearest first. */
export type Regions = readonly [LimiterRegion, ...LimiterRegion[]];

/** If a region had at least this part of the deadline, a timeout is its fault. */
export const FAIR_PART = 0.25;

export interface Unanswered {
  readonly kind: 'unanswered';
  readonly reason: DegradedReason;
  /** The region got the call, so it may have charged the checks. */
  readonly isInDoubt: boolean;
}

export type Asked<T> = Unanswered | { readonly kind: 'answered'; readonly answer: T };

export interface Asking<T> {
  readonly region: LimiterRegion;
  readonly ask: () => Promise<T>;
  readonly now: () => number;
  /** The region has enough time, so a timeout is its fault. */
  readonly isFair: boolean;
}

export async function askRegion<T>(asking: Asking<T>): Promise<Asked<T>> {
  const { region, isFair, now, ask } = asking;
  const permit = region.breaker.enter();
  if (permit === undefined) return NOT_ASKED;
  const askedAtMs = now();
  try {
    const answer = await ask();
    noteAnswer(region, permit, askedAtMs, now());
    return { kind: 'answered', answer };
  } catch (error) {
    return noteFailure({ region, permit, isFair }, error, now());
  }
}

/** The breaker is not closed, so the region is not called. */
export const NOT_ASKED: Unanswered = { kind: 'unanswered', isInDoubt: false, reason: 'breaker-open' };

/** The region has answered a call. */
export function noteAnswer(region: LimiterRegion, permit: Permit, askedAtMs: number, nowMs: number): void {
  region.breaker.succeed(permit, nowMs);
  region.distance.note(nowMs - askedAtMs);
}

interface Failed extends Pick<Asking<unknown>, 'region' | 'isFair'> {
  readonly permit: Permit;
}

/** A call to the region has failed. */
export function noteFailure({ region, permit, isFair }: Failed, error: unknown, nowMs: number): Unanswered {
  const reason = reasonOf(error);
  region.watch.note(error);
  if (reason === 'script-failed') region.breaker.succeed(permit, nowMs);
  else if (reason === 'timeout' ? isFair : reason !== 'internal-error') region.breaker.fail(permit, nowMs);
  return { kind: 'unanswered', isInDoubt: true, reason };
}

/** Gives every error a reason, bugs included, because no request may fail because of the limiter. */
export const reasonOf = (error: unknown): DegradedReason =>
  error instanceof CounterStoreError ? error.failure : 'internal-error';
