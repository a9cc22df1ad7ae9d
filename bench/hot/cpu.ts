// Processor time of workerd for a request that a lease pays for. Compared with a proxy, with a proxy that sends one PING
// first, and with Weir if it calls Redis for each request.
import { startArena } from '../gateway/arena.ts';
import type { Target } from '../gateway/candidates.ts';
import { cpuMicros } from '../gateway/cpu.ts';
import { LEASED_PATH, ONE_RULE_PATH } from '../gateway/limits.ts';
import { type Load, startLoad } from '../gateway/load.ts';
import { CONCURRENCY, LEAST_MS, ROUNDS, SLICE_MS, WARM_UP_REQUESTS } from '../gateway/measure.ts';
import type { BenchOptions, Table } from '../shared/bench.ts';
import { interleave, median, medianRatio, type Slice } from '../shared/rounds.ts';
import { fixed } from '../shared/table.ts';

const NAMES = ['proxy', 'fairProxy', 'ping', 'hot', 'counted'] as const;
type Name = (typeof NAMES)[number];
type PerName<T> = Readonly<Record<Name, T>>;

const LABELS: PerName<string> = {
  proxy: 'a proxy',
  fairProxy: 'a proxy with Weir’s duties',
  ping: 'a proxy after one PING',
  hot: 'Weir, from a lease',
  counted: 'Weir, one call each',
};

/** Each has an isolate of its own. */
const ROUTES: PerName<{ readonly worker: string; readonly path: string }> = {
  proxy: { worker: 'proxy', path: ONE_RULE_PATH },
  fairProxy: { worker: 'fair-proxy', path: ONE_RULE_PATH },
  ping: { worker: 'ping', path: ONE_RULE_PATH },
  hot: { worker: 'weir', path: LEASED_PATH },
  counted: { worker: 'weir-five-rules', path: ONE_RULE_PATH },
};

export interface HotCpu {
  /** Processor time of workerd for one request, in microseconds. */
  readonly cpu: PerName<number>;
  /** Ratios: the medians of the rounds. */
  readonly cpuOfProxy: number;
  readonly cpuOfFairProxy: number;
  readonly cpuOfPing: number;
  readonly uncounted: readonly string[];
}

export async function measureCpu(options: BenchOptions): Promise<HotCpu> {
  const { scaled } = options;
  await using arena = await startArena(options);
  await using load = startLoad();
  await using workerd = await arena.serve();
  const targets = perName((name): Target => {
    const { worker, path } = ROUTES[name];
    return {
      origin: workerd.urls[worker] ?? '',
      path: `${path}?bytes=256`,
      isWeir: worker.startsWith('weir'),
    };
  });
  const warmUpRequests = scaled(WARM_UP_REQUESTS, CONCURRENCY);
  for (const name of NAMES)
    await load.warmUp({ target: targets[name], connections: CONCURRENCY, warmUpRequests });
  const uncounted: string[] = [];
  const ms = scaled(SLICE_MS, LEAST_MS);
  const slices = perName((name) => sliceOf({ load, target: targets[name], pid: workerd.pid, ms, uncounted }));
  const micros = await interleave(slices, { ...options, rounds: scaled(ROUNDS) });
  return {
    cpu: perName((name) => median(micros[name])),
    cpuOfProxy: medianRatio(micros.hot, micros.proxy),
    cpuOfFairProxy: medianRatio(micros.hot, micros.fairProxy),
    cpuOfPing: medianRatio(micros.hot, micros.ping),
    uncounted,
  };
}

interface SliceOptions {
  readonly load: Load;
  readonly target: Target;
  readonly pid: number;
  readonly ms: number;
  readonly uncounted: string[];
}

const sliceOf =
  ({ load, target, pid, ms, uncounted }: SliceOptions): Slice =>
  async () => {
    const before = await cpuMicros(pid);
    const result = await load.run({ target, pace: { connections: CONCURRENCY }, ms });
    uncounted.push(...result.uncounted);
    return ((await cpuMicros(pid)) - before) / result.latenciesMs.length;
  };

const perName = <T>(make: (name: Name) => T): PerName<T> =>
  Object.fromEntries(NAMES.map((name) => [name, make(name)])) as Record<Name, T>;

export const cpuTable = ({ cpu, cpuOfProxy, cpuOfFairProxy, cpuOfPing }: HotCpu): Table => ({
  title: 'Processor time of workerd for one request',
  head: ['', 'µs'],
  rows: NAMES.map((name) => [LABELS[name], fixed(cpu[name], 0)]),
  notes: [
    `From a lease: ${fixed(cpuOfProxy)} times the proxy, ${fixed(cpuOfFairProxy)} times the proxy with Weir’s duties, ${fixed(cpuOfPing)} times the PING.`,
  ],
});
