// The gateway under load: Weir as deployed, beside a bare Worker, a bare proxy, a proxy that only sends a PING to
// Redis, and @upstash/ratelimit, bare and with Weir's duties. All get the same requests, on the same Redis and the same
// origin.
import { type Arena, startArena } from './gateway/arena.ts';
import { CANDIDATES, targetsAt } from './gateway/candidates.ts';
import { compare, compareKeys, compareTables } from './gateway/compare.ts';
import { CONCURRENCY, LEAST_MS } from './gateway/fresh-processes.ts';
import { measureHeap } from './gateway/heap.ts';
import { latencyKeys, latencyTable, measureLatency } from './gateway/latency.ts';
import { type Load, startLoad } from './gateway/load.ts';
import { measure } from './gateway/measure.ts';
import { loadTable } from './gateway/tables.ts';
import type { Bench, BenchOptions } from './shared/bench.ts';
import { tallyReasons } from './shared/reasons.ts';

const HEAP_MS = 2_000;

export const measures =
  'processor time, requests a second and added time of the built Worker, beside @upstash/ratelimit';

export const keys = [
  ...['requests', 'uncounted', 'throughput', 'p50', 'p99', 'cpu', 'cpuOverProxy'].flatMap((figure) =>
    CANDIDATES.map((name) => `${figure}.${name}`),
  ),
  ...latencyKeys,
  ...compareKeys,
  'heapPerRequest',
];

export const run: Bench = async (options) => {
  await using arena = await startArena(options);
  await using load = startLoad();
  const { measured, latencies } = await measureAll(arena, load, options);
  const heapPerRequest = await heapOfWeir(arena, load, options.scaled(HEAP_MS, LEAST_MS));
  const { reasons, ratio, ...figures } = measured;
  const comparison = compare(measured, latencies);
  return {
    tables: [loadTable(measured, heapPerRequest), latencyTable(latencies), ...compareTables(comparison)],
    json: {
      ...figures,
      uncountedReasons: tallyReasons([...reasons, ...latencies.reasons]),
      latency: latencies.added,
      latencyPerSecond: latencies.perSecond,
      ...comparison,
      heapPerRequest,
    },
  };
};

async function measureAll(arena: Arena, load: Load, options: BenchOptions) {
  await using all = await arena.serve();
  const measured = await measure({ arena, all, load }, options);
  options.say('throughput: measured');
  const { throughput } = measured;
  const targets = targetsAt(all.urls);
  const latencies = await measureLatency({ arena, load, targets, throughput }, options);
  return { measured, latencies };
}

/** Runs in its own process, because an inspector costs time. */
async function heapOfWeir(arena: Arena, load: Load, ms: number): Promise<number> {
  await using workerd = await arena.serve({ inspect: true });
  const target = targetsAt(workerd.urls).oneRule;
  return await measureHeap(workerd.inspectors['weir'] ?? '', async () => {
    const { latenciesMs, uncounted } = await load.run({ target, pace: { connections: CONCURRENCY }, ms });
    return latenciesMs.length + uncounted.length;
  });
}
