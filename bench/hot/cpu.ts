// Processor time of workerd for a request that a lease pays for. Compared with a proxy, with a proxy that sends one
// PING first, and with Weir if it calls Redis for each request.
import { startArena } from '../gateway/arena.ts';
import { ROUTES as COMMON, type Route, weir } from '../gateway/candidates.ts';
import { measureProcesses, microsOf } from '../gateway/fresh-processes.ts';
import { LEASED_PATH } from '../gateway/limits.ts';
import { startLoad } from '../gateway/load.ts';
import type { BenchOptions, Table } from '../shared/bench.ts';
import { median, medianRatio } from '../shared/rounds.ts';
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

const ROUTES: PerName<Route> = {
  proxy: COMMON.proxy,
  fairProxy: COMMON.fairProxy,
  ping: COMMON.ping,
  hot: weir(LEASED_PATH),
  counted: COMMON.oneRule,
};

export interface HotCpu {
  /** Processor time of workerd for one request, in microseconds. */
  readonly cpu: PerName<number>;
  /** Ratios: the medians of the runs. */
  readonly cpuOfProxy: number;
  readonly cpuOfFairProxy: number;
  readonly cpuOfPing: number;
  readonly uncounted: readonly string[];
}

export async function measureCpu(options: BenchOptions): Promise<HotCpu> {
  await using arena = await startArena(options);
  await using load = startLoad();
  await using all = await arena.serve();
  const runs = await measureProcesses({ routes: ROUTES, arena, all, load }, options);
  const micros = perName((name) => runs.map((run) => microsOf(run[name])));
  return {
    cpu: perName((name) => median(micros[name])),
    cpuOfProxy: medianRatio(micros.hot, micros.proxy),
    cpuOfFairProxy: medianRatio(micros.hot, micros.fairProxy),
    cpuOfPing: medianRatio(micros.hot, micros.ping),
    uncounted: runs.flatMap((run) =>
      Object.values(run)
        .flat()
        .flatMap(({ uncounted }) => uncounted),
    ),
  };
}

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
