// A limit that is split over three regions: what passes in all, what one region alone can use of it, and what that costs
// in calls over the ocean. Beside MultiRegionRatelimit of @upstash/ratelimit, on the same gateways and the same traffic.
import { type Edges, startEdges } from '../local/edges.ts';
import { createPeerSystem } from './regions/peer.ts';
import { type Measured, measureTraffic, type Size, TRAFFICS, type Traffic } from './regions/traffic.ts';
import { createWeirSystem } from './regions/weir.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons, uncountedNotes } from './shared/reasons.ts';
import { fixed, percent } from './shared/table.ts';

/** Between two regions, there and back. */
const ROUND_TRIP_MS = 40;
/** Twice the default: all of it shares one machine. */
const DEADLINE_MS = 500;
const LIMIT = 300;
const WINDOW_MS = 15_000;
/** In the short form: a part of two for each region, and a window in which a far call ends. */
const LEAST = { limit: 6, windowMs: 500 };

export const measures =
  'a limit over three regions: what passes, and calls over the ocean, beside MultiRegionRatelimit';

const BY_TRAFFIC = ['requests', 'uncounted', 'utilization', 'remoteCallsPerRequest', 'commandsPerRequest'];

export const keys = [
  'overAdmitted',
  'peerOverAdmitted',
  'addedLatency.p50',
  'addedLatency.p99',
  ...BY_TRAFFIC.flatMap((figure) =>
    [figure, `peer${figure.charAt(0).toUpperCase()}${figure.slice(1)}`].flatMap((key) =>
      TRAFFICS.map((traffic) => `${key}.${traffic}`),
    ),
  ),
];

export const run: Bench = async ({ say, scaled }) => {
  const size = { limit: scaled(LIMIT, LEAST.limit), windowMs: scaled(WINDOW_MS, LEAST.windowMs) };
  say('starting three regions');
  await using edges = await startEdges({ roundTripMs: ROUND_TRIP_MS, deadlineMs: DEADLINE_MS });
  const weir = await measureAll(edges, 'Weir', size, say);
  const peer = await measureAll(edges, 'MultiRegionRatelimit', size, say);
  const skewed = weir.skewed;
  return {
    tables: [table(weir, peer, size), algorithmTable(weir)],
    json: {
      requests: each(weir, ({ requests }) => requests),
      uncounted: each(weir, ({ uncounted }) => uncounted.length),
      uncountedReasons: tallyReasons(reasonsOf(weir, peer)),
      overAdmitted: sumOf(weir, ({ overAdmitted }) => overAdmitted),
      utilization: each(weir, ({ utilization }) => utilization),
      remoteCallsPerRequest: each(weir, ({ remoteCallsPerRequest }) => remoteCallsPerRequest),
      addedLatency: {
        p50: skewed.addedMs(0.5) / ROUND_TRIP_MS,
        p99: skewed.addedMs(0.99) / ROUND_TRIP_MS,
      },
      commandsPerRequest: each(weir, ({ commandsPerRequest }) => commandsPerRequest),
      peerRequests: each(peer, ({ requests }) => requests),
      peerUncounted: each(peer, ({ uncounted }) => uncounted.length),
      peerOverAdmitted: sumOf(peer, ({ overAdmitted }) => overAdmitted),
      peerUtilization: each(peer, ({ utilization }) => utilization),
      peerCommandsPerRequest: each(peer, ({ commandsPerRequest }) => commandsPerRequest),
      peerRemoteCallsPerRequest: each(peer, ({ remoteCallsPerRequest }) => remoteCallsPerRequest),
    },
  };
};

type ByTraffic = Readonly<Record<Traffic, Measured>>;

async function measureAll(
  edges: Edges,
  which: 'Weir' | 'MultiRegionRatelimit',
  size: Size,
  say: BenchOptions['say'],
): Promise<ByTraffic> {
  const measured: Partial<Record<Traffic, Measured>> = {};
  for (const traffic of TRAFFICS) {
    say(`${which}: ${traffic}`);
    const system = which === 'Weir' ? await createWeirSystem(edges, size) : createPeerSystem(edges, size);
    measured[traffic] = await measureTraffic(edges, system, traffic);
  }
  return measured as ByTraffic;
}

const each = <T>(by: ByTraffic, of: (measured: Measured) => T) =>
  Object.fromEntries(TRAFFICS.map((traffic) => [traffic, of(by[traffic])]));
const sumOf = (by: ByTraffic, of: (measured: Measured) => number) =>
  TRAFFICS.reduce((sum, traffic) => sum + of(by[traffic]), 0);
const reasonsOf = (...systems: readonly ByTraffic[]) =>
  systems.flatMap((by) => TRAFFICS.flatMap((traffic) => by[traffic].uncounted));

const LABELS: Readonly<Record<Traffic, string>> = {
  oneRegion: 'all in one region',
  even: 'spread evenly',
  skewed: '80, 15 and 5 %',
};

const table = (weir: ByTraffic, peer: ByTraffic, { windowMs }: Size): Table => ({
  title: 'A limit over three regions',
  head: [
    'traffic',
    '',
    'over the limit',
    'of the limit',
    'far calls',
    'commands',
    'over the ocean, p50 and p99',
    'not counted',
  ],
  rows: TRAFFICS.flatMap((traffic) => [
    rowOf(LABELS[traffic], 'Weir', weir[traffic]),
    rowOf('', 'MultiRegionRatelimit', peer[traffic]),
  ]),
  notes: [
    ...uncountedNotes(reasonsOf(weir, peer)),
    `Three redis-servers; between two regions a round trip takes ${ROUND_TRIP_MS} ms. Twice the limit is sent, steadily, for two windows of ${windowMs / 1_000} s; the second one is judged.`,
    'What was not counted is left out of all but calls and commands.',
    'Over the limit: requests admitted beyond it, all windows and subjects together. Of the limit: admitted of what may pass.',
    'Far calls and commands (as Upstash bills them) are for each request; the last column is added time in round trips.',
  ],
});

const rowOf = (traffic: string, who: string, measured: Measured): string[] => [
  traffic,
  who,
  String(measured.overAdmitted),
  percent(measured.utilization, 1),
  fixed(measured.remoteCallsPerRequest),
  fixed(measured.commandsPerRequest),
  `${fixed(measured.addedMs(0.5) / ROUND_TRIP_MS)}  ${fixed(measured.addedMs(0.99) / ROUND_TRIP_MS)}`,
  String(measured.uncounted.length),
];

const algorithmTable = (weir: ByTraffic): Table => ({
  title: 'Weir by algorithm: of the limit',
  head: ['', ...TRAFFICS.map((traffic) => LABELS[traffic])],
  rows: weir.oneRegion.byRule.map(({ name }, i) => [
    name,
    ...TRAFFICS.map((traffic) => percent(weir[traffic].byRule[i]?.utilization ?? 0, 1)),
  ]),
  notes: ['What drains (token-bucket, leaky-bucket, gcra) also drains on its way between regions.'],
});
