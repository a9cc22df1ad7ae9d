// Measures all candidates: requests a second, their times, and the processor time of workerd.
import type { BenchOptions } from '../shared/bench.ts';
import { median, medianRatio } from '../shared/rounds.ts';
import { type Candidate, type PerCandidate, perCandidate, ROUTES } from './candidates.ts';
import { COMPARED } from './compare.ts';
import { measureProcesses, microsOf, type ProcessesOptions } from './fresh-processes.ts';

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
  /** Processor time of workerd for one request, in microseconds: the median of the runs. NaN if it is not reported. */
  readonly cpu: PerCandidate<number>;
  /** How much more than the bare proxy in the same run: the median of the runs. */
  readonly cpuOverProxy: PerCandidate<number>;
  /** The same for each run, to show how far runs agree. NaN for those that did not take part. */
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
  const cpuByRun = runs.map((run) => perCandidate((name) => microsOf(run[name])));
  const cpuOverProxyByRun = cpuByRun.map((run) => perCandidate((name) => run[name] - run.proxy));
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
    cpu: medianRun(cpuByRun),
    cpuOverProxy: medianRun(cpuOverProxyByRun),
    cpuOverProxyByRun,
    ratio: (above, below) => medianRatio(perSecond[above], perSecond[below]),
  };
}

/** The median of the runs in which a candidate took part. */
const medianRun = (runs: readonly PerCandidate<number>[]): PerCandidate<number> =>
  perCandidate((name) => median(runs.map((run) => run[name]).filter((micros) => !Number.isNaN(micros))));

export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
