// Sums up many episodes: counts, how much of the limits was used, and failures.

import { FLOORS } from './bounds.ts';
import type { Episode, Failure } from './episode.ts';
import { TRAFFICS, type Traffic } from './traffic.ts';
import type { Used } from './usage.ts';

/** A failure, and how to see it again. */
export interface Failed extends Failure {
  readonly episode: number;
}

export interface Summary {
  episodes: number;
  requests: number;
  admitted: number;
  denied: number;
  degraded: number;
  leased: number;
  stoodIn: number;
  undecided: number;
  degradedInPeace: number;
  farCalls: number;
  /** How many limits were exceeded. */
  over: number;
  readonly failed: Failed[];
  readonly used: Map<string, Used>;
}

/** More than a person reads. */
const MAX_FAILED = 20;

export const createSummary = (): Summary => ({
  episodes: 0,
  requests: 0,
  admitted: 0,
  denied: 0,
  degraded: 0,
  leased: 0,
  stoodIn: 0,
  undecided: 0,
  degradedInPeace: 0,
  farCalls: 0,
  over: 0,
  failed: [],
  used: new Map(),
});

export function addEpisode(summary: Summary, number: number, episode: Episode): void {
  summary.episodes += 1;
  for (const field of [
    'requests',
    'admitted',
    'denied',
    'degraded',
    'leased',
    'stoodIn',
    'undecided',
    'degradedInPeace',
  ] as const)
    summary[field] += episode[field];
  summary.farCalls += episode.usage.farCalls;
  for (const failure of episode.failures) {
    if (failure.kind === 'over') summary.over += 1;
    if (summary.failed.length < MAX_FAILED) summary.failed.push({ ...failure, episode: number });
  }
  for (const [name, used] of episode.usage.byKind)
    summary.used.set(name, sum([summary.used.get(name), used]));
}

const sum = (all: readonly (Used | undefined)[]): Used => {
  const total = { requests: 0, admitted: 0, ideal: 0, farCalls: 0 };
  for (const used of all)
    for (const field of ['requests', 'admitted', 'ideal', 'farCalls'] as const)
      total[field] += used?.[field] ?? 0;
  return total;
};

/** The use under one kind of traffic, by algorithm or by size. */
export function usedBy({ used }: Summary, traffic: Traffic, by: 'algorithm' | 'size'): Map<string, Used> {
  const found = new Map<string, Used>();
  for (const [name, one] of used) {
    const [ofTraffic, algorithm = '', size = ''] = name.split(' ');
    const key = by === 'algorithm' ? algorithm : size;
    if (ofTraffic === traffic) found.set(key, sum([found.get(key), one]));
  }
  return found;
}

export const utilizationOf = ({ admitted, ideal }: Used): number => (ideal === 0 ? 1 : admitted / ideal);

/** Fewer requests say too little: the last request of a window is a sixth of a limit of 6. */
const ENOUGH = 1_000;

/** Where callers could use less than the floor. */
export function belowFloors(summary: Summary): string[] {
  return TRAFFICS.flatMap((traffic) => {
    const floor = FLOORS[traffic];
    if (floor === undefined) return [];
    return [...usedBy(summary, traffic, 'algorithm')].flatMap(([algorithm, used]) =>
      used.ideal >= ENOUGH && utilizationOf(used) < floor
        ? [
            `${traffic} ${algorithm}: ${utilizationOf(used).toFixed(4)} of the ideal, at least ${floor} are due`,
          ]
        : [],
    );
  });
}

export const hasFailed = (summary: Summary): boolean =>
  summary.failed.length > 0 || belowFloors(summary).length > 0;
