// Hot subjects: how many Redis commands a request costs when isolates lease, whether the limit holds, and how much of it
// can be used; beside @upstash/ratelimit on the same load.
import { startEdges } from '../local/edges.ts';
import { openSystem, SYSTEMS, type System } from './hot/systems.ts';
import { type Figures, limitOf, type Shape, sendHot } from './hot/traffic.ts';
import type { Bench, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed } from './shared/table.ts';

export const measures =
  'Redis commands of hot subjects, and whether leases keep limits, beside @upstash/ratelimit';

const WINDOWS = 2;
/** The peers are measured at so many isolates: what differs with their number is Weir's. */
const PEERS_AT = 3;
const RATES = [200, 1_000];
const SHAPES: readonly Shape[] = [1, 100].flatMap((subjects) =>
  RATES.flatMap((perSecond) =>
    [1, 3, 10].flatMap((isolates) => [1.2, 0.5].map((load) => ({ subjects, isolates, perSecond, load }))),
  ),
);
/** The short form has one of them, and so little of it that no window is used up. */
const SHORTEST: readonly Shape[] = [{ subjects: 1, isolates: PEERS_AT, perSecond: 600, load: 1.2 }];

type Measured = Shape & { readonly by: Readonly<Partial<Record<System, Figures>> & Record<'weir', Figures>> };

export const keys = ['requests', 'uncounted', 'overAdmitted', 'hot.commandsPerRequest', 'hot.utilization'];

export const run: Bench = async ({ say, scaled }) => {
  await using edges = await startEdges({ roundTripMs: 20 });
  const windows = scaled(WINDOWS);
  const measured: Measured[] = [];
  for (const shape of windows === WINDOWS ? SHAPES : SHORTEST) {
    const by: Partial<Record<System, Figures>> = {};
    for (const name of systemsAt(shape)) {
      const ask = await openSystem[name](edges, shape);
      by[name] = await sendHot({ edges, shape, windows, ask });
    }
    measured.push({ ...shape, by: by as Measured['by'] });
    say(
      `${shape.subjects} subjects, ${shape.perSecond}/s, ${shape.isolates} isolates, load ${shape.load}: done`,
    );
  }
  return { tables: [toTable(measured)], json: toJson(measured) };
};

const systemsAt = ({ isolates, subjects }: Shape): readonly System[] =>
  isolates === PEERS_AT && subjects === 1 ? SYSTEMS : ['weir'];

/** One subject at 200 requests a second and more in each isolate: what leases are for. */
const isHot = ({ subjects, perSecond, isolates }: Shape) => perSecond / subjects / isolates >= 200;

function toJson(measured: readonly Measured[]) {
  const weir = measured.map(({ by }) => by.weir);
  const hot = measured.filter(isHot);
  const uncounted = measured.flatMap(({ by }) => SYSTEMS.flatMap((name) => by[name]?.uncounted ?? []));
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
