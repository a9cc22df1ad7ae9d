// Measures what remembered denials save: one subject that sends far too much, for each algorithm, through one isolate
// and through three.
import type { BenchOptions } from '../shared/bench.ts';
import { type Arena, ISOLATES, PEERS } from './arena.ts';
import { FACTORS, type Factor, type HotLoad, sendTooMuch } from './hot-subject.ts';
import { ALGORITHMS, type HotAlgorithm } from './rules.ts';

export interface HotRun {
  readonly who: 'Weir' | 'peer';
  readonly isolates: number;
  readonly algorithm: HotAlgorithm;
  readonly loads: readonly HotLoad[];
}

export async function measureDenialCache(arena: Arena, options: BenchOptions): Promise<HotRun[]> {
  const candidates = [
    { who: 'Weir', workers: ISOLATES.slice(0, 1) },
    { who: 'Weir', workers: ISOLATES },
    { who: 'peer', workers: PEERS },
  ] as const;
  const runs: HotRun[] = [];
  for (const algorithm of ALGORITHMS.slice(0, options.scaled(ALGORITHMS.length)))
    for (const { who, workers } of candidates) {
      const loads = await sendTooMuch(arena, workers, algorithm, options);
      runs.push({ who, isolates: workers.length, algorithm, loads });
      options.say(`${algorithm}, ${who} in ${workers.length}: ${loads.map(describe).join(', ')}`);
    }
  return runs;
}

const describe = ({ factor, perSecond, utilization }: HotLoad) =>
  `${factor}× at ${perSecond.toFixed(0)}/s ${utilization.toFixed(2)}`;

export interface DenialCache {
  readonly utilization1x2: number;
  readonly utilization5x: number;
  readonly utilization50x: number;
  /** At 50 times the limit. */
  readonly commandsPerDenied: number;
  /** Requests that no region counted. */
  readonly uncounted: number;
}

/** The worst of all runs. */
export function summarize(runs: readonly HotRun[], who: HotRun['who']): DenialCache {
  const own = runs.filter((run) => run.who === who);
  const loadsOf = (wanted: Factor) =>
    own.flatMap(({ loads }) => loads.filter(({ factor }) => factor === wanted));
  const least = (factor: Factor) => Math.min(...loadsOf(factor).map(({ utilization }) => utilization));
  const [some, more, most] = FACTORS.map(({ factor }) => factor) as [Factor, Factor, Factor];
  return {
    utilization1x2: least(some),
    utilization5x: least(more),
    utilization50x: least(most),
    commandsPerDenied: Math.max(...loadsOf(most).map(({ commandsPerDenied }) => commandsPerDenied)),
    uncounted: reasonsOf(own).length,
  };
}

/** Why requests were not counted, one reason for each. */
export const reasonsOf = (runs: readonly HotRun[]): string[] =>
  runs.flatMap(({ loads }) => loads.flatMap(({ uncounted }) => uncounted));
