// Measures all candidates in one interleaved run: requests a second, their times, and the processor time of workerd.
import type { BenchOptions } from '../shared/bench.ts';
import { interleave, median, medianRatio, type Slice } from '../shared/rounds.ts';
import { CANDIDATES, type Candidate, type PerCandidate, perCandidate, type Target } from './candidates.ts';
import { cpuMicros } from './cpu.ts';
import type { Load, LoadResult } from './load.ts';

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
  /** The ratio of throughputs, as the median over rounds. */
  ratio(above: Candidate, below: Candidate): number;
}

export interface MeasureOptions {
  readonly targets: PerCandidate<Target>;
  readonly load: Load;
  /** The process id of workerd. */
  readonly pid: number;
}

export const CONCURRENCY = 16;
/** Several collections fall into each slice. A median of shorter slices would leave them out. */
export const SLICE_MS = 1_000;
export const ROUNDS = 12;
/**
 * Before each slice. The isolate was idle while the others had their slices: its caches are cold, and the system may
 * have taken its pages. For the first second, a request costs up to half as much again.
 */
export const WAKE_MS = 1_000;
/** For each candidate. V8 compiles Weir's code until about this number, and the peer's until 9,000. */
export const WARM_UP_REQUESTS = 30_000;
/** The short form lets every connection ask. */
export const LEAST_MS = 10;

interface Round extends LoadResult {
  readonly cpuMicros: number;
}

export async function measure(
  { targets, load, pid }: MeasureOptions,
  { say, scaled }: BenchOptions,
): Promise<Measured> {
  for (const name of CANDIDATES) {
    const warmUpRequests = scaled(WARM_UP_REQUESTS, CONCURRENCY);
    await load.warmUp({ target: targets[name], connections: CONCURRENCY, warmUpRequests });
  }
  say('all are warm');
  const rounds = perCandidate((): Round[] => []);
  const slices = perCandidate(
    (name): Slice =>
      async () => {
        const target = targets[name];
        await load.run({ target, pace: { connections: CONCURRENCY }, ms: scaled(WAKE_MS, LEAST_MS) });
        const before = await cpuMicros(pid);
        const result = await load.run({
          target,
          pace: { connections: CONCURRENCY },
          ms: scaled(SLICE_MS, LEAST_MS),
        });
        rounds[name].push({ ...result, cpuMicros: (await cpuMicros(pid)) - before });
        return (result.latenciesMs.length / result.elapsedMs) * 1_000;
      },
  );
  const perSecond = await interleave(slices, { rounds: scaled(ROUNDS), say });

  // The first round warms up.
  const counted = perCandidate((name) => rounds[name].slice(1));
  const sorted = perCandidate((name) =>
    counted[name].flatMap(({ latenciesMs }) => latenciesMs).sort((a, b) => a - b),
  );
  const reasons = perCandidate((name) => counted[name].flatMap(({ uncounted }) => uncounted));
  const cpus = perCandidate((name) =>
    counted[name].map((round) => round.cpuMicros / round.latenciesMs.length),
  );
  const proxyCpu = (round: number) => cpus.proxy[round] ?? Number.NaN;
  return {
    requests: perCandidate((name) => sorted[name].length + reasons[name].length),
    uncounted: perCandidate((name) => reasons[name].length),
    reasons: Object.values(reasons).flat(),
    throughput: perCandidate((name) => median(perSecond[name])),
    p50: perCandidate((name) => quantile(sorted[name], 0.5)),
    p99: perCandidate((name) => quantile(sorted[name], 0.99)),
    cpu: perCandidate((name) => median(cpus[name])),
    cpuOverProxy: perCandidate((name) => median(cpus[name].map((micros, i) => micros - proxyCpu(i)))),
    ratio: (above, below) => medianRatio(perSecond[above], perSecond[below]),
  };
}

export const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
