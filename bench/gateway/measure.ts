// Measures all candidates: requests a second, their times, and the processor time of workerd.
import type { BenchOptions } from '../shared/bench.ts';
import { median, medianRatio } from '../shared/rounds.ts';
import { type Candidate, type PerCandidate, perCandidate, ROUTES } from './candidates.ts';
import { COMPARED } from './compare.ts';
import { measureProcesses, type ProcessesOptions, type Round, type Run } from './fresh-processes.ts';

export interface Measured {
  /** Requests sent, and those of them that were not counted. */
  readonly requests: PerCandidate<number>;
  readonly uncounted: PerCandidate<number>;
  /** One reason for each request that was not counted. */
  readonly reasons: readonly string[];
  /** Requests a second. */
  readonly throughput: PerCandidate<number>;
  /** Milliseconds. */
  readonly p50: PerCandidate<number>;
  readonly p99: PerCandidate<number>;
  /** Processor time of workerd for one request, in microseconds. NaN if the system does not report it. */
  readonly cpu: PerCandidate<number>;
  /** How much more than the bare proxy in the same round. */
  readonly cpuOverProxy: PerCandidate<number>;
  /** The same for each run, to show how far runs agree. */
  readonly cpuOverProxyByRun: readonly PerCandidate<number>[];
  /** The ratio of throughputs, as the median over rounds. */
  ratio(above: Candidate, below: Candidate): number;
}

export async function measure(
  options: Omit<ProcessesOptions<Candidate>, 'routes'>,
  bench: BenchOptions,
): Promise<Measured> {
  const runs = await measureProcesses({ ...options, routes: ROUTES, compared: COMPARED }, bench);
  const rounds = perCandidate((name) => runs.flatMap((run) => run[name]));
  const sorted = perCandidate((name) =>
    rounds[name].flatMap(({ latenciesMs }) => latenciesMs).sort((a, b) => a - b),
  );
  const reasons = perCandidate((name) => rounds[name].flatMap(({ uncounted }) => uncounted));
  const perSecond = perCandidate((name) =>
    rounds[name].map(({ latenciesMs, elapsedMs }) => (latenciesMs.length / elapsedMs) * 1_000),
  );
  return {
    requests: perCandidate((name) => sorted[name].length + reasons[name].length),
    uncounted: perCandidate((name) => reasons[name].length),
    reasons: Object.values(reasons).flat(),
    throughput: perCandidate((name) => median(perSecond[name])),
    p50: perCandidate((name) => quantile(sorted[name], 0.5)),
    p99: perCandidate((name) => quantile(sorted[name], 0.99)),
    cpu: perCandidate((name) => median(rounds[name].map(microsOf))),
    cpuOverProxy: overProxy(rounds),
    cpuOverProxyByRun: runs.map(overProxy),
    ratio: (above, below) => medianRatio(perSecond[above], perSecond[below]),
  };
}

/** Processor time for one request. */
export const microsOf = ({ cpuMicros, latenciesMs }: Round): number => cpuMicros / latenciesMs.length;

function overProxy(rounds: Run<Candidate>): PerCandidate<number> {
  const proxy = rounds.proxy.map(microsOf);
  return perCandidate((name) =>
    median(rounds[name].map((round, i) => microsOf(round) - (proxy[i] ?? Number.NaN))),
  );
}

export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
