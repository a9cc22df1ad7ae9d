// Asks a region, if its breaker is closed: whether one that is out is back is found out after the response
// (region-watch.ts).

import type { DegradedReason } from '../core/counting/decision.ts';
import type { AnnouncementBoard } from '../core/ports/announcement.ts';
import type { Census, CensusBoard } from '../core/ports/census.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import type { Breaker } from '../core/regions/breaker.ts';
import type { Distance } from './distance.ts';
import type { RegionWatch } from './region-watch.ts';

/** What a region has for the limiter. */
export interface LimiterRegion {
  readonly name: string;
  readonly store: CounterStore;
  readonly board: AnnouncementBoard;
  readonly breaker: Breaker;
  readonly watch: RegionWatch;
  readonly distance: Distance;
  readonly census: Census;
  readonly censusBoard: CensusBoard;
  /** Charges may be taken back there: see slot-split.ts. */
  readonly isCluster: boolean;
}

/** Nearest first. */
export type Regions = readonly [LimiterRegion, ...LimiterRegion[]];

/** Of the deadline: a region that had less cannot be blamed for not answering in time. */
export const FAIR_PART = 0.25;

export interface Unanswered {
  readonly kind: 'unanswered';
  readonly reason: DegradedReason;
  /** It was asked: nobody knows what it has done. */
  readonly isInDoubt: boolean;
}

export type Asked<T> = Unanswered | { readonly kind: 'answered'; readonly answer: T };

export interface Asking<T> {
  readonly region: LimiterRegion;
  readonly ask: () => Promise<T>;
  readonly now: () => number;
  /** It has time enough: if it does not answer, that is its fault. */
  readonly isFair: boolean;
}

export async function askRegion<T>({ region, isFair, now, ask }: Asking<T>): Promise<Asked<T>> {
  const permit = region.breaker.enter();
  if (permit === undefined) return { kind: 'unanswered', isInDoubt: false, reason: 'breaker-open' };
  const askedAtMs = now();
  try {
    const answer = await ask();
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

/** Whatever went wrong, a bug included: no request fails because of the limiter. */
export const reasonOf = (error: unknown): DegradedReason =>
  error instanceof CounterStoreError ? error.failure : 'internal-error';
