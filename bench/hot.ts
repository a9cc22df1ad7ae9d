// Hot subjects: how many Redis commands a request costs when isolates lease, whether the limit holds, and how much of
// the limit the subjects can use. Compared with @upstash/ratelimit under the same load.
import { type Edges, routeFrom, startEdges } from '../local/edges.ts';
import { cpuTable, type HotCpu, measureCpu } from './hot/cpu.ts';
import { highestRate } from './hot/highest-rate.ts';
import { type LeaseMemory, measureMemory, memoryTable } from './hot/memory.ts';
import { openSystem, SYSTEMS, type System } from './hot/systems.ts';
import { type Figures, limitOf, type Shape, sendHot } from './hot/traffic.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed } from './shared/table.ts';

export const measures =
  'Redis commands of hot subjects, and whether leases keep limits, beside @upstash/ratelimit';

const WINDOWS = 2;
const WINDOW_SECONDS = 4;
/** The peers are measured with this many isolates only, because more isolates change nothing for them. */
const PEERS_AT = 3;
/** Requests a second. The bench adds the highest rate of this machine. */
const RATES = [200, 1_000];
const LOADS = [1.2, 0.5];

async function findShapes(edges: Edges): Promise<Shape[]> {
  const shapes: Shape[] = [];
  for (const subjects of [1, 100])
    for (const isolates of [1, 3, 10])
      for (const perSecond of [...RATES, await highestRate(edges, { subjects, isolates })])
        for (const load of LOADS)
          shapes.push({ subjects, isolates, perSecond, load, windowSeconds: WINDOW_SECONDS });
  return shapes;
}
/** The short form has one shape, with the shortest windows. */
const SHORTEST: readonly Shape[] = [
  { subjects: 1, isolates: PEERS_AT, perSecond: 600, load: 1.2, windowSeconds: 1 },
];

type Measured = Shape & { readonly by: Readonly<Partial<Record<System, Figures>> & Record<'weir', Figures>> };

export const keys = [
  ...['requests', 'uncounted', 'overAdmitted', 'hot.commandsPerRequest', 'hot.utilization'],
  ...[
    'cpu.hot',
    'cpu.proxy',
    'cpu.fairProxy',
    'cpu.ping',
    'cpuOfProxy',
    'cpuOfFairProxy',
    'cpuOfPing',
    'memory.grownMb',
  ],
];

export const run: Bench = async (options) => {
  const { say } = options;
  const { measured, memory } = await measureShapes(options);
  say('processor time');
  const cpu = await measureCpu(options);
  const tables = [toTable(measured), cpuTable(cpu), memoryTable(memory)];
  return { tables, json: toJson(measured, cpu, memory) };
};

async function measureShapes(options: BenchOptions) {
  const { say, scaled } = options;
  await using edges = await startEdges({ roundTripMs: 20 });
  const windows = scaled(WINDOWS);
  const isFull = windows === WINDOWS;
  const shapes = isFull ? await findShapes(edges) : SHORTEST;
  const measured: Measured[] = [];
  for (const shape of shapes) {
    const by: Partial<Record<System, Figures>> = {};
    const measure = async (name: System) => {
      const ask = await openSystem[name](edges, shape);
      by[name] = await sendHot({ edges, shape, windows, ask });
    };
    // One after another for figures. At once if only the run itself is tested.
    if (isFull) for (const name of systemsAt(shape)) await measure(name);
    else await Promise.all(systemsAt(shape).map(measure));
    measured.push({ ...shape, by: by as Measured['by'] });
    const { subjects, perSecond, isolates, load } = shape;
    say(`${subjects} subjects, ${perSecond}/s, ${isolates} isolates, load ${load}: done`);
  }
  const [region] = routeFrom('us', edges.regions, () => {});
  return { measured, memory: measureMemory(region, options) };
}

/** The peers ask Redis for each request, so they cannot reach the highest rate of leases. */
const systemsAt = ({ isolates, subjects, perSecond }: Shape): readonly System[] =>
  isolates === PEERS_AT && subjects === 1 && perSecond <= Math.max(...RATES) ? SYSTEMS : ['weir'];

/** Leases are for these: one subject with at least 60 requests a second in each isolate, or many with 200. */
const isHot = ({ subjects, perSecond, isolates }: Shape) =>
  perSecond / subjects / isolates >= (subjects === 1 ? 60 : 200);

function toJson(measured: readonly Measured[], { uncounted: failed, ...cpu }: HotCpu, memory: LeaseMemory) {
  const weir = measured.map(({ by }) => by.weir);
  const hot = measured.filter(isHot);
  const ofShapes = measured.flatMap(({ by }) => SYSTEMS.flatMap((name) => by[name]?.uncounted ?? []));
  const uncounted = [...ofShapes, ...failed];
  const tight = hot.filter(({ load }) => load > 1);
  return {
    requests: weir.reduce((sum, { requests }) => sum + requests, 0),
    uncounted: uncounted.length,
    uncountedReasons: tallyReasons(uncounted),
    overAdmitted: weir.reduce((sum, { overAdmitted }) => sum + overAdmitted, 0),
    hot: {
      commandsPerRequest: Math.max(...hot.map(({ by }) => by.weir.commandsPerRequest)),
      utilization: Math.min(...tight.map(({ by }) => by.weir.utilization)),
    },
    ...cpu,
    memory,
    shapes: measured.map(({ by, ...shape }) => ({ ...shape, ...by })),
  };
}

const toTable = (measured: readonly Measured[]): Table => ({
  title: 'Redis commands a request · used of the limit · over it',
  head: ['subjects, requests/s, isolates, load', 'limit', 'Weir', '@upstash/ratelimit', 'its cached window'],
  rows: measured.map(({ by, ...shape }) => [
    `${shape.subjects}, ${shape.perSecond}, ${shape.isolates}, ${shape.load}`,
    limitOf(shape),
    ...SYSTEMS.map((name) => cellOf(by[name])),
  ]),
  notes: [
    ...uncountedNotes(measured.flatMap(({ by }) => SYSTEMS.flatMap((name) => by[name]?.uncounted ?? []))),
    'Nobody announces rules here: an isolate asks for them up to four times a second, one command each.',
  ],
});

const cellOf = (figures: Figures | undefined) => (figures ? sayFigures(figures) : '');

const sayFigures = ({ commandsPerRequest, utilization, overAdmitted }: Figures) =>
  `${fixed(commandsPerRequest, 3)} · ${fixed(utilization, 3)} · ${overAdmitted}`;
