// The gateway under load: Weir as it is deployed beside a bare Worker, a bare proxy, a proxy that asks Redis for nothing
// but a PING, and @upstash/ratelimit; all in one workerd process, on the same Redis and the same origin.
import { type Arena, startArena } from './gateway/arena.ts';
import { CANDIDATES, type Candidate, targetsAt } from './gateway/candidates.ts';
import { measureHeap } from './gateway/heap.ts';
import { type Load, startLoad } from './gateway/load.ts';
import { CONCURRENCY, LEAST_MS, type Measured, measure } from './gateway/measure.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed } from './shared/table.ts';

const HEAP_MS = 2_000;

export const run: Bench = async (options) => {
  await using arena = await startArena(options);
  await using load = startLoad();
  const measured = await measureAll(arena, load, options);
  options.say('throughput: measured');
  const heapPerRequest = await heapOfWeir(arena, load, options.scaled(HEAP_MS, LEAST_MS));
  const { requests, uncounted, throughput, p50, p99, cpuMicros } = measured;
  const uncountedReasons = tallyReasons(measured.reasons);
  const ratios = ratiosOf(measured);
  return {
    tables: [loadTable(measured, heapPerRequest), ratioTable(measured)],
    json: { requests, uncounted, uncountedReasons, throughput, p50, p99, cpuMicros, ratios, heapPerRequest },
  };
};

async function measureAll(arena: Arena, load: Load, options: BenchOptions): Promise<Measured> {
  await using workerd = await arena.serve();
  return await measure({ targets: targetsAt(workerd.urls), load, pid: workerd.pid }, options);
}

/** In a process of its own: an inspector costs time. */
async function heapOfWeir(arena: Arena, load: Load, ms: number): Promise<number> {
  await using workerd = await arena.serve({ inspect: true });
  const target = targetsAt(workerd.urls).oneRule;
  return await measureHeap(workerd.inspectors['weir'] ?? '', async () => {
    const { latenciesMs, uncounted } = await load.run({ target, concurrency: CONCURRENCY, ms });
    return latenciesMs.length + uncounted.length;
  });
}

const LABELS: Readonly<Record<Candidate, string>> = {
  bare: 'a Hono response',
  proxy: 'a proxy',
  ping: 'a proxy after one PING',
  oneRule: 'Weir, one rule',
  fiveRules: 'Weir, five rules',
  upstashOne: '@upstash/ratelimit, one limit',
  upstashThree: '@upstash/ratelimit, three limits',
  upstashFive: '@upstash/ratelimit, five limits',
};

const loadTable = (
  { uncounted, reasons, throughput, p50, p99, cpuMicros }: Measured,
  heapPerRequest: number,
): Table => ({
  title: `The gateway under load, ${CONCURRENCY} connections`,
  head: ['', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs of workerd', 'not counted'],
  rows: CANDIDATES.map((name) => [
    LABELS[name],
    throughput[name].toFixed(0),
    fixed(p50[name]),
    fixed(p99[name]),
    cpuMicros[name].toFixed(0),
    uncounted[name],
  ]),
  notes: [
    ...uncountedNotes(reasons),
    'The load, Redis, its gateway, the origin and workerd share one machine: compare within this table only.',
    'All candidates run in one `workerd serve`. Its KV is a Map in a Worker beside them; no measured request reads it.',
    'Redis checks the keys of scripts that Weir sends, as Upstash does; those of the peer are not checked.',
    `A request to Weir with one rule allocates ${(heapPerRequest / 1_024).toFixed(1)} KiB of JavaScript objects.`,
  ],
});

interface Wanted {
  readonly above: Candidate;
  readonly below: Candidate;
  readonly atLeast: number;
}

const WANTED: readonly Wanted[] = [
  { above: 'oneRule', below: 'ping', atLeast: 0.9 },
  { above: 'fiveRules', below: 'ping', atLeast: 0.85 },
  { above: 'oneRule', below: 'upstashOne', atLeast: 1 },
  { above: 'fiveRules', below: 'upstashFive', atLeast: 3 },
];

export const measures =
  'requests a second through the built Worker, beside a bare proxy and @upstash/ratelimit';

export const keys = [
  ...['requests', 'uncounted', 'throughput', 'p50', 'p99', 'cpuMicros'].flatMap((figure) =>
    CANDIDATES.map((name) => `${figure}.${name}`),
  ),
  ...WANTED.map(({ above, below }) => `ratios.${above}/${below}`),
  'heapPerRequest',
];

const ratioTable = ({ ratio }: Measured): Table => ({
  title: 'Requests a second, compared',
  head: ['', 'times', 'wanted', ''],
  rows: WANTED.map(({ above, below, atLeast }) => {
    const times = ratio(above, below);
    const verdict = times >= atLeast ? 'yes' : 'no';
    return [`${LABELS[above]} / ${LABELS[below]}`, fixed(times), `≥ ${atLeast}`, verdict];
  }),
});

const ratiosOf = ({ ratio }: Measured) =>
  Object.fromEntries(WANTED.map(({ above, below }) => [`${above}/${below}`, ratio(above, below)]));
