// Calls a region, if its breaker is closed. Whether a failed region is back is found out after the response, in
// region-watch.ts.

import type { DegradedReason } from '../core/counting/decision.ts';
import type { AnnouncementBoard } from '../core/ports/announcement.ts';
import type { Census, CensusBoard } from '../core/ports/census.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import type { Breaker } from '../core/regions/breaker.ts';
import type { Distance } from './distance.ts';
import type { RegionWatch } from './region-watch.ts';

/** A region as the limiter sees it. */
export interface LimiterRegion {
  readonly name: string;
  readonly store: CounterStore;
  readonly board: AnnouncementBoard;
  readonly breaker: Breaker;
  readonly watch: RegionWatch;
  readonly distance: Distance;
  readonly census: Census;
  readonly censusBoard: CensusBoard;
  /** A cluster may take charges back within a call: see slot-split.ts. */
  readonly isCluster: boolean;
}

/** Nearest first. */
export type Regions = readonly [LimiterRegion, ...LimiterRegion[]];

/** The least part of the deadline after which a timeout is the region's fault. */
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
  /** False for an answer that lacks something. The region has then failed. */
  readonly isWhole?: (answer: T) => boolean;
}

export async function askRegion<T>(asking: Asking<T>): Promise<Asked<T>> {
  const { region, isFair, now, ask, isWhole } = asking;
  const permit = region.breaker.enter();
  if (permit === undefined) return { kind: 'unanswered', isInDoubt: false, reason: 'breaker-open' };
  const askedAtMs = now();
  try {
    const answer = await ask();
    if (isWhole?.(answer) === false) throw new CounterStoreError('bad-reply', 'the answer lacks something');
    region.breaker.succeed(permit, now());
    region.distance.note(now() - askedAtMs);
    return { kind: 'answered', answer };
  } catch (error) {
    const reason = reasonOf(error);
    region.watch.note(error);
    if (reason === 'script-failed') region.breaker.succeed(permit, now());
    else if (reason === 'timeout' ? isFair : reason !== 'internal-error') region.breaker.fail(permit, now());
    return { kind: 'unanswered', isInDoubt: true, reason };
  }
}

/** Gives every error a reason, bugs included, because no request may fail because of the limiter. */
export const reasonOf = (error: unknown): DegradedReason =>
  error instanceof CounterStoreError ? error.failure : 'internal-error';
