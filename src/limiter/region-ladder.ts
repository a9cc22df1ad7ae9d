// Asks the nearest region that can be asked, and the next one if it does not answer. All of it under one deadline:
// as long as there is another region to turn to, one gets no more than half of the time that is left. A region whose
// breaker is not closed is passed over: whether it is back is found out after the response (region-watch.ts).

import type { DegradedReason } from '../core/counting/decision.ts';
import type { AnnouncementBoard } from '../core/ports/announcement.ts';
import type { Census, CensusBoard } from '../core/ports/census.ts';
import { type CounterStore, CounterStoreError } from '../core/ports/counter-store.ts';
import type { Breaker } from '../core/regions/breaker.ts';
import type { Deadline } from './deadline.ts';
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

export interface Asking<T> {
  /** Nearest first. */
  readonly regions: readonly LimiterRegion[];
  readonly deadline: Deadline;
  readonly now: () => number;
  readonly ask: (region: LimiterRegion, signal: AbortSignal) => Promise<T>;
}

/** Of the deadline: a region that had less cannot be blamed for not answering in time. */
export const FAIR_PART = 0.25;

export interface Unanswered {
  readonly kind: 'unanswered';
  readonly reason: DegradedReason;
  /** It was asked: nobody knows what it has done. */
  readonly isInDoubt: boolean;
}

export type Asked<T> =
  | Unanswered
  | { readonly kind: 'answered'; readonly region: LimiterRegion; readonly answer: T };

/** The first one that answers. */
export async function askRegions<T>({ regions, deadline, now, ask }: Asking<T>): Promise<Asked<T>> {
  for (const [i, region] of regions.entries()) {
    const remainingMs = deadline.remainingMs();
    if (remainingMs <= 0) break;
    const hasNext = regions.slice(i + 1).some(({ breaker }) => breaker.state(now()) === 'closed');
    const givenMs = hasNext ? remainingMs / 2 : remainingMs;
    const isFair = givenMs >= deadline.totalMs * FAIR_PART;
    const asked = await askRegion({ region, signal: deadline.signal(givenMs), isFair, now, ask });
    if (asked.kind === 'answered') return asked;
  }
  return { kind: 'unanswered', isInDoubt: false, reason: 'timeout' };
}

export interface AskingOne<T> extends Pick<Asking<T>, 'now' | 'ask'> {
  readonly region: LimiterRegion;
  readonly signal: AbortSignal;
  /** It has time enough: if it does not answer, that is its fault. */
  readonly isFair: boolean;
}

export async function askRegion<T>({ region, signal, isFair, now, ask }: AskingOne<T>): Promise<Asked<T>> {
  const permit = region.breaker.enter();
  if (permit === undefined) return { kind: 'unanswered', isInDoubt: false, reason: 'breaker-open' };
  const askedAtMs = now();
  try {
    const answer = await ask(region, signal);
    region.breaker.succeed(permit, now());
    region.distance.note(now() - askedAtMs);
    return { kind: 'answered', region, answer };
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
