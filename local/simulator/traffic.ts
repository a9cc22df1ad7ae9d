// The requests of one subject: how many, when, and to which places.

import type { Random } from '../random.ts';
import type { LimitedRule } from '../rules.ts';
import { between, happens, oneOf, placeBy, wholeBetween } from './draw.ts';

export const TRAFFICS = ['oneRegion', 'even', 'skewed', 'moving'] as const;
export type Traffic = (typeof TRAFFICS)[number];

export interface Arrival {
  /** The number of the request in its episode. */
  readonly number: number;
  readonly atMs: number;
  readonly place: number;
  /** Which isolate of the place: a number that wraps around. */
  readonly isolate: number;
  /** Whether the origin fails. */
  readonly fails: boolean;
}

export interface SubjectPlan {
  readonly name: string;
  readonly path: string;
  readonly traffic: Traffic;
  readonly arrivals: readonly Arrival[];
}

export interface TrafficShape {
  readonly rules: readonly LimitedRule[];
  readonly traffic: Traffic;
  readonly startMs: number;
  readonly longestMs: number;
}

const PLACES = 3;
const MAX_REQUESTS = 3_000;

/** A load around the tightest limit, for some of its windows. */
export function drawArrivals(
  random: Random,
  { rules, traffic, startMs, longestMs }: TrafficShape,
): Arrival[] {
  const tightest = rules.toSorted((a, b) => ratePerMs(a) - ratePerMs(b))[0] as LimitedRule;
  const windowMs = tightest.windowSeconds * 1_000;
  const load = oneOf(random, [0.7, 1.2, 2, 4, 20]);
  const burst = oneOf(random, [1, 1, 1, 4, 20]);
  const everyMs = burst / (load * ratePerMs(tightest));
  // Often longer than a part is transferred.
  const windows = wholeBetween(random, 3, tightest.windowSeconds === 1 ? 120 : 15);
  const lastsMs = Math.min(longestMs, windows * windowMs, (MAX_REQUESTS * everyMs) / burst);
  const placeAt = drawPlaces(random, traffic, windowMs);
  const arrivals: Arrival[] = [];
  for (let atMs = startMs; atMs < startMs + lastsMs; atMs += everyMs * between(random, 0.2, 1.8))
    for (let i = 0; i < burst; i += 1)
      arrivals.push({
        number: arrivals.length,
        atMs: Math.round(atMs + i * random()),
        place: placeAt(atMs),
        isolate: wholeBetween(random, 0, 5),
        fails: happens(random, 0.05),
      });
  return arrivals;
}

const ratePerMs = ({ limit, cost, windowSeconds }: LimitedRule) =>
  (limit ?? 1) / cost / (windowSeconds * 1_000);

function drawPlaces(random: Random, traffic: Traffic, windowMs: number): (atMs: number) => number {
  const first = wholeBetween(random, 0, PLACES - 1);
  const shifted = (place: number) => (first + place) % PLACES;
  const staysMs = windowMs * oneOf(random, [2, 3, 8]);
  switch (traffic) {
    case 'oneRegion':
      return () => first;
    case 'even':
      return () => wholeBetween(random, 0, PLACES - 1);
    case 'skewed':
      return () => shifted(placeBy(random, [80, 15, 5]));
    case 'moving':
      return (atMs) => shifted(Math.floor(atMs / staysMs) % PLACES);
  }
}
