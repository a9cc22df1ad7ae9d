// A limit that is split over three regions, at real distances: how many requests pass, how much one region alone can
// use, what clients read, and how many far calls that takes. Beside MultiRegionRatelimit of @upstash/ratelimit, on the
// same gateways and with the same traffic.
import { type Edges, startEdges } from '../local/edges.ts';
import { createPeerSystem } from './regions/peer.ts';
import { exactFrom } from './regions/remaining.ts';
import { type Measured, measureTraffic, type Size, TRAFFICS, type Traffic } from './regions/traffic.ts';
import { createWeirSystem } from './regions/weir.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed, percent } from './shared/table.ts';

/** The round trip between two regions. */
const ROUND_TRIPS_MS = [80, 200];
/** The default. */
const DEADLINE_MS = 250;
const SMALL: Size = { limit: 6, windowMs: 1_000, windows: 30 };
const SLOW: Size = { limit: 30, windowMs: 60_000, windows: 4 };
const LARGE: Size = { limit: 300, windowMs: 15_000, windows: 2 };
/** Long enough to visit every region. */
const MOVING_WINDOWS = 6;

export const measures =
  'a limit over three regions: what passes, what clients read, far calls, beside MultiRegionRatelimit';

export const keys = [
  'overAdmitted',
  'peerOverAdmitted',
  ...['oneRegion', 'even', 'skewed', 'evenSmall', 'skewedSmall', 'moving'].map((key) => `utilization.${key}`),
  'remaining.exactFromRequest',
  ...['farCallsPerRequest', 'peerFarCallsPerRequest'].flatMap((key) => [`${key}.oneRegion`, `${key}.even`]),
  'commandsPerRequest.oneRegion',
  'peerCommandsPerRequest.oneRegion',
  'peerUtilization.oneRegion',
  'addedLatency.p50',
  'addedLatency.p99',
  'uncounted',
  'peerUncounted',
];

/** One kind of traffic, with one size, at one distance. */
interface Run {
  readonly roundTripMs: number;
  readonly size: Size;
  readonly traffic: Traffic;
  readonly measured: Measured;
}

export const run: Bench = async ({ say, scaled }) => {
  const isShort = scaled(100, 1) < 100;
  const distances = isShort ? [20] : ROUND_TRIPS_MS;
  const sizes = isShort ? [{ ...SMALL, windowMs: 200, windows: 2 }] : [SLOW, SMALL, LARGE];
  say('starting three regions');
  await using edges = await startEdges({ roundTripMs: 0, deadlineMs: DEADLINE_MS });
  const runs: Run[] = [];
  let exactFromRequest = 1;
  for (const roundTripMs of distances) {
    await beApart(edges, roundTripMs);
    say(`${roundTripMs} ms apart: what clients read`);
    exactFromRequest = Math.max(exactFromRequest, await exactFrom(edges));
    runs.push(...(await measureAll(edges, roundTripMs, sizes, say)));
  }
  await beApart(edges, distances[0] ?? 0);
  const peer = await measurePeer(edges, distances[0] ?? 0, sizes.at(-1) ?? SMALL, say);
  return { tables: tablesOf(runs, peer), json: toJson(runs, peer, exactFromRequest) };
};

const beApart = (edges: Edges, latencyMs: number) =>
  Promise.all(edges.regions.map(({ far }) => far.faults.set({ latencyMs })));

/** The slow runs take minutes but hardly any processor time, so they run beside the others. */
async function measureAll(
  edges: Edges,
  roundTripMs: number,
  sizes: readonly Size[],
  say: BenchOptions['say'],
): Promise<Run[]> {
  const measure = async (size: Size, traffic: Traffic): Promise<Run> => {
    const windows = traffic === 'moving' ? Math.max(size.windows, MOVING_WINDOWS) : size.windows;
    const system = await createWeirSystem(edges, size);
    return { roundTripMs, size, traffic, measured: await measureTraffic(edges, system, traffic, windows) };
  };
  const slow = sizes.includes(SLOW) ? TRAFFICS.slice(0, 3).map((traffic) => measure(SLOW, traffic)) : [];
  const runs: Run[] = [];
  for (const size of sizes.filter((one) => one !== SLOW))
    for (const traffic of TRAFFICS) {
      say(`${roundTripMs} ms apart, ${nameOf(size)}: ${LABELS[traffic]}`);
      runs.push(await measure(size, traffic));
    }
  if (slow.length > 0) say(`${roundTripMs} ms apart, ${nameOf(SLOW)}: waiting for the rest of its windows`);
  return [...(await Promise.all(slow)), ...runs];
}

async function measurePeer(edges: Edges, roundTripMs: number, size: Size, say: BenchOptions['say']) {
  const runs: Run[] = [];
  for (const traffic of TRAFFICS.slice(0, 3)) {
    say(`MultiRegionRatelimit, ${roundTripMs} ms apart, ${nameOf(size)}: ${LABELS[traffic]}`);
    const system = createPeerSystem(edges, size);
    const measured = await measureTraffic(edges, system, traffic, size.windows);
    runs.push({ roundTripMs, size, traffic, measured });
  }
  return runs;
}

function toJson(runs: readonly Run[], peer: readonly Run[], exactFromRequest: number) {
  const isSmall = ({ size }: Run) => size.limit === SMALL.limit;
  const small = runs.filter(isSmall);
  const others = runs.filter((one) => !isSmall(one));
  const large = others.length > 0 ? others : small;
  const least = (some: readonly Run[], traffic: Traffic) =>
    Math.min(...of(some, traffic).map(({ measured }) => measured.utilization));
  const most = (some: readonly Run[], figure: 'farCallsPerRequest' | 'commandsPerRequest') =>
    byTraffic(some, (these) => Math.max(...these.map(({ measured }) => measured[figure])));
  const skewed = of(large, 'skewed').at(-1);
  // The runs with the same distance and size as the peer's.
  const alike = runs.filter(
    ({ roundTripMs, size }) => roundTripMs === peer[0]?.roundTripMs && size === peer[0].size,
  );
  return {
    overAdmitted: sum(runs, ({ overAdmitted }) => overAdmitted),
    utilization: {
      oneRegion: least(runs, 'oneRegion'),
      even: least(large, 'even'),
      skewed: least(large, 'skewed'),
      evenSmall: least(small, 'even'),
      skewedSmall: least(small, 'skewed'),
      moving: least(runs, 'moving'),
    },
    remaining: { exactFromRequest },
    farCallsPerRequest: most(runs, 'farCallsPerRequest'),
    // The commands of the slow runs mix with those of the runs beside them.
    commandsPerRequest: most(
      runs.filter(({ size }) => size !== SLOW),
      'commandsPerRequest',
    ),
    addedLatency: {
      p50: (skewed?.measured.addedMs(0.5) ?? 0) / (skewed?.roundTripMs ?? 1),
      p99: (skewed?.measured.addedMs(0.99) ?? 0) / (skewed?.roundTripMs ?? 1),
    },
    besidePeer: {
      utilization: byTraffic(alike, (these) =>
        Math.min(...these.map(({ measured }) => measured.utilization)),
      ),
      farCallsPerRequest: most(alike, 'farCallsPerRequest'),
      commandsPerRequest: most(alike, 'commandsPerRequest'),
    },
    requests: sum(runs, ({ requests }) => requests),
    uncounted: sum(runs, ({ uncounted }) => uncounted.length),
    uncountedReasons: tallyReasons([...runs, ...peer].flatMap(({ measured }) => measured.uncounted)),
    peerOverAdmitted: sum(peer, ({ overAdmitted }) => overAdmitted),
    peerUtilization: byTraffic(peer, (these) =>
      Math.min(...these.map(({ measured }) => measured.utilization)),
    ),
    peerFarCallsPerRequest: most(peer, 'farCallsPerRequest'),
    peerCommandsPerRequest: most(peer, 'commandsPerRequest'),
    peerRequests: sum(peer, ({ requests }) => requests),
    peerUncounted: sum(peer, ({ uncounted }) => uncounted.length),
    runs: runs.map(({ roundTripMs, size, traffic, measured }) => ({
      roundTripMs,
      limit: size.limit,
      windowMs: size.windowMs,
      traffic,
      utilization: Object.fromEntries(measured.byRule.map(({ name, utilization }) => [name, utilization])),
      perfectParts: Object.fromEntries(measured.byRule.map(({ name, perfectParts }) => [name, perfectParts])),
      farCallsPerRequest: measured.farCallsPerRequest,
      uncounted: measured.uncounted.length,
    })),
  };
}

const of = (runs: readonly Run[], traffic: Traffic) => runs.filter((one) => one.traffic === traffic);
const byTraffic = (runs: readonly Run[], figure: (some: readonly Run[]) => number) =>
  Object.fromEntries(
    TRAFFICS.flatMap((traffic) => {
      const some = of(runs, traffic);
      return some.length > 0 ? [[traffic, figure(some)]] : [];
    }),
  );
const sum = (runs: readonly Run[], figure: (measured: Measured) => number) =>
  runs.reduce((so, { measured }) => so + figure(measured), 0);

const nameOf = ({ limit, windowMs }: Size) => `${limit} in ${windowMs / 1_000} s`;

const LABELS: Readonly<Record<Traffic, string>> = {
  oneRegion: 'all in one region',
  even: 'spread evenly',
  skewed: '80, 15 and 5 %',
  moving: 'in one region after another',
};

const tablesOf = (runs: readonly Run[], peer: readonly Run[]): Table[] => [
  {
    title: 'A limit over three regions',
    head: ['', 'apart', 'limit', 'traffic', 'over', 'of the limit', 'far calls', 'commands', 'not counted'],
    rows: [
      ...runs.map((one) => rowOf('Weir', one)),
      ...peer.map((one) => rowOf('MultiRegionRatelimit', one)),
    ],
    notes: [
      ...uncountedNotes([...runs, ...peer].flatMap(({ measured }) => measured.uncounted)),
      `Three redis-servers; a deadline of ${DEADLINE_MS} ms. Twice the limit is sent, steadily; the first window is not judged.`,
      'What was not counted is left out of all but calls and commands.',
      'Over: requests admitted beyond the limit, all windows and algorithms together. Of the limit: admitted of what may pass, by the worst algorithm.',
      'Far calls and commands (as Upstash bills them) are for each request; commands are those of all runs that go on at the time.',
    ],
  },
  {
    title: 'Weir by algorithm: of the limit',
    head: ['apart', 'limit', 'traffic', ...(runs[0]?.measured.byRule.map(({ name }) => name) ?? [])],
    rows: runs.map(({ roundTripMs, size, traffic, measured }) => [
      `${roundTripMs} ms`,
      nameOf(size),
      LABELS[traffic],
      ...measured.byRule.map(({ utilization, perfectParts }) =>
        perfectParts < 0.98
          ? `${percent(utilization, 1)} of ${percent(perfectParts, 1)}`
          : percent(utilization, 1),
      ),
    ]),
    notes: [
      'Where a second figure stands: three parts, however well requests find them, admit no more than that.',
    ],
  },
];

const rowOf = (who: string, { roundTripMs, size, traffic, measured }: Run): string[] => [
  who,
  `${roundTripMs} ms`,
  nameOf(size),
  LABELS[traffic],
  String(measured.overAdmitted),
  percent(measured.utilization, 1),
  fixed(measured.farCallsPerRequest, 3),
  fixed(measured.commandsPerRequest),
  String(measured.uncounted.length),
];
