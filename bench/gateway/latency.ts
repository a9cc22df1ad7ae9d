// Measures what a limiter adds to the time of a request, by the distance to Redis. The load is an open loop at half the
// rate that the slowest candidate can answer, so that no request waits for a busy processor.
import type { BenchOptions, Table } from '../shared/bench.ts';
import { interleave, type Slice } from '../shared/rounds.ts';
import type { Arena } from './arena.ts';
import { LABELS, type PerCandidate, type Target } from './candidates.ts';
import type { Load, LoadResult } from './load.ts';
import { quantile } from './measure.ts';

const LIMITERS = ['oneRule', 'fiveRules', 'upstashOne', 'upstashFive', 'upstashFiveParallel'] as const;
const MEASURED = ['proxy', ...LIMITERS] as const;
type Name = (typeof MEASURED)[number];
const DISTANCES_MS = [2, 5, 20] as const;

const SLICE_MS = 1_000;
const ROUNDS = 8;
/** The short form has time for a request or two. */
const LEAST_MS = 20;
/** Requests a second. Fewer say nothing, and the short form does not know what a candidate can answer. */
const FEWEST = 50;
const MOST = 1_000;

/** Milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

export interface Latencies {
  readonly perSecond: number;
  /** By distance: how much more than the proxy. */
  readonly added: Readonly<Record<string, Readonly<Record<string, Latency>>>>;
  readonly reasons: readonly string[];
}

export const latencyKeys = DISTANCES_MS.flatMap((ms) =>
  LIMITERS.flatMap((name) => [`latency.${ms}.${name}.p50`, `latency.${ms}.${name}.p99`]),
);

export interface LatencyOptions {
  readonly arena: Arena;
  readonly load: Load;
  readonly targets: PerCandidate<Target>;
  /** Requests a second, as measured under load. */
  readonly throughput: PerCandidate<number>;
}

export async function measureLatency(options: LatencyOptions, bench: BenchOptions): Promise<Latencies> {
  const { arena, throughput } = options;
  const slowest = Math.min(...MEASURED.map((name) => throughput[name]));
  const perSecond = Math.round(Math.min(MOST, Math.max(FEWEST, slowest / 2 || 0)));
  const added: Record<string, Record<string, Latency>> = {};
  const reasons: string[] = [];
  for (const ms of DISTANCES_MS) {
    await arena.setDistance(ms);
    bench.say(`${ms} ms to Redis, ${perSecond} requests a second`);
    const measured = await measureAt(options, perSecond, bench);
    added[ms] = Object.fromEntries(
      LIMITERS.map((name) => [name, minus(measured.times[name], measured.times.proxy)]),
    );
    reasons.push(...measured.reasons);
  }
  await arena.setDistance(0);
  return { perSecond, added, reasons };
}

async function measureAt(
  { load, targets }: LatencyOptions,
  perSecond: number,
  { say, scaled }: BenchOptions,
) {
  const rounds = perName((): LoadResult[] => []);
  const slices = perName(
    (name): Slice =>
      async () => {
        const result = await load.run({
          target: targets[name],
          pace: { perSecond },
          ms: scaled(SLICE_MS, LEAST_MS),
        });
        rounds[name].push(result);
        return result.latenciesMs.length;
      },
  );
  await interleave(slices, { rounds: scaled(ROUNDS), say });
  // The first round warms up.
  const counted = perName((name) => rounds[name].slice(1));
  return {
    times: perName((name) => toLatency(counted[name].flatMap(({ latenciesMs }) => latenciesMs))),
    reasons: Object.values(counted).flatMap((all) => all.flatMap(({ uncounted }) => uncounted)),
  };
}

const perName = <T>(make: (name: Name) => T): Readonly<Record<Name, T>> =>
  Object.fromEntries(MEASURED.map((name) => [name, make(name)])) as Record<Name, T>;

function toLatency(times: readonly number[]): Latency {
  const sorted = [...times].sort((a, b) => a - b);
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99) };
}

const minus = (one: Latency, other: Latency): Latency => ({
  p50: one.p50 - other.p50,
  p99: one.p99 - other.p99,
});

export const latencyTable = ({ perSecond, added }: Latencies): Table => ({
  title: `Milliseconds added over the proxy, ${perSecond} requests a second: p50 and p99`,
  head: ['', ...DISTANCES_MS.flatMap((ms) => [`${ms} ms to Redis`, ''])],
  rows: LIMITERS.map((name) => [
    LABELS[name],
    ...DISTANCES_MS.flatMap((ms) => {
      const { p50 = Number.NaN, p99 = Number.NaN } = added[ms]?.[name] ?? {};
      return [p50.toFixed(1), p99.toFixed(1)];
    }),
  ]),
});
