// Asks the nearest region that can be asked, and the next one if it does not answer. All of it under one deadline:
// as long as there is another region to turn to, one gets no more than half of the time that is left.
import type { AnnouncementBoard } from '../core/announcement.ts';
import type { Breaker } from '../core/breaker.ts';
import type { Census, CensusBoard } from '../core/census.ts';
import { type CounterStore, CounterStoreError } from '../core/counter-store.ts';
import type { DegradedReason } from '../core/decision.ts';
import type { Deadline } from './deadline.ts';

/** What a region has for the limiter. */
export interface LimiterRegion {
  readonly name: string;
  readonly store: CounterStore;
  readonly board: AnnouncementBoard;
  readonly breaker: Breaker;
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

/** Whoever has had less of the deadline cannot be blamed for not answering in time. */
const FAIR_PART = 0.25;

interface Tried {
  /** Asked without an answer: nobody knows what they have done. */
  readonly unanswered: readonly CounterStore[];
  /** Why the nearest one has not answered; undefined if it has. */
  readonly reason?: DegradedReason | undefined;
}

export type Asked<T> = Tried &
  (
    | { readonly kind: 'answered'; readonly region: LimiterRegion; readonly answer: T }
    | { readonly kind: 'unanswered'; readonly reason: DegradedReason }
  );

export async function askRegions<T>({ regions, deadline, now, ask }: Asking<T>): Promise<Asked<T>> {
  const unanswered: CounterStore[] = [];
  let reason: DegradedReason | undefined;
  for (const [i, region] of regions.entries()) {
    const remainingMs = deadline.remainingMs();
    if (remainingMs <= 0) break;
    const permit = region.breaker.enter(now());
    if (permit === undefined) {
      reason ??= 'breaker-open';
      continue;
    }
    const hasNext = regions.slice(i + 1).some(({ breaker }) => breaker.state(now()) !== 'open');
    const givenMs = hasNext ? remainingMs / 2 : remainingMs;
    try {
      const answer = await ask(region, deadline.signal(givenMs));
      region.breaker.succeed(permit, now());
      return { kind: 'answered', region, answer, unanswered, reason };
    } catch (error) {
      const failure = failureOf(error);
      if (failure === 'script-failed') region.breaker.succeed(permit, now());
      else if (failure !== 'timeout' || givenMs >= deadline.totalMs * FAIR_PART)
        region.breaker.fail(permit, now());
      reason ??= failure;
      unanswered.push(region.store);
    }
  }
  return { kind: 'unanswered', unanswered, reason: reason ?? 'timeout' };
}

/** Whatever went wrong, a bug included: no request fails because of the limiter. */
export const failureOf = (error: unknown) =>
  error instanceof CounterStoreError ? error.failure : 'unavailable';
