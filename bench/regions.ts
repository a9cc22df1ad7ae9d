// A limit that is split over three regions: what passes in all, what one region alone can use of it, and what that costs
// in calls over the ocean. Beside MultiRegionRatelimit of @upstash/ratelimit, on the same gateways and the same traffic.
import { type Edges, startEdges } from '../local/edges.ts';
import { createPeerSystem } from './regions/peer.ts';
import { type Measured, measureTraffic, TRAFFICS, type Traffic } from './regions/traffic.ts';
import { createWeirSystem } from './regions/weir.ts';
import type { Bench, Table } from './shared/bench.ts';
import { fixed, percent } from './shared/table.ts';

/** Between two regions, there and back. */
const ROUND_TRIP_MS = 40;
/** Twice the default: all of it shares one machine. */
const DEADLINE_MS = 500;

export const run: Bench = async ({ say }) => {
  say('starting three regions');
  await using edges = await startEdges({ roundTripMs: ROUND_TRIP_MS, deadlineMs: DEADLINE_MS });
  const weir = await measureAll(edges, 'Weir', say);
  const peer = await measureAll(edges, 'MultiRegionRatelimit', say);
  const skewed = weir.skewed;
  return {
    tables: [table(weir, peer), algorithmTable(weir)],
    json: {
      overAdmitted: sumOf(weir, ({ overAdmitted }) => overAdmitted),
      utilization: each(weir, ({ utilization }) => utilization),
      remoteCallsPerRequest: each(weir, ({ remoteCallsPerRequest }) => remoteCallsPerRequest),
      addedLatency: {
        p50: skewed.addedMs(0.5) / ROUND_TRIP_MS,
        p99: skewed.addedMs(0.99) / ROUND_TRIP_MS,
      },
      commandsPerRequest: each(weir, ({ commandsPerRequest }) => commandsPerRequest),
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
  say: (line: string) => void,
): Promise<ByTraffic> {
  const measured: Partial<Record<Traffic, Measured>> = {};
  for (const traffic of TRAFFICS) {
    say(`${which}: ${traffic}`);
    const system = which === 'Weir' ? await createWeirSystem(edges) : createPeerSystem(edges);
    measured[traffic] = await measureTraffic(edges, system, traffic);
  }
  return measured as ByTraffic;
}

const each = <T>(by: ByTraffic, of: (measured: Measured) => T) =>
  Object.fromEntries(TRAFFICS.map((traffic) => [traffic, of(by[traffic])]));
const sumOf = (by: ByTraffic, of: (measured: Measured) => number) =>
  TRAFFICS.reduce((sum, traffic) => sum + of(by[traffic]), 0);

const LABELS: Readonly<Record<Traffic, string>> = {
  oneRegion: 'all in one region',
  even: 'spread evenly',
  skewed: '80, 15 and 5 %',
};

const table = (weir: ByTraffic, peer: ByTraffic): Table => ({
  title: 'A limit over three regions',
  head: [
    'traffic',
    '',
    'over the limit',
    'of the limit',
    'far calls',
    'commands',
    'over the ocean, p50 and p99',
  ],
  rows: TRAFFICS.flatMap((traffic) => [
    rowOf(LABELS[traffic], 'Weir', weir[traffic]),
    rowOf('', 'MultiRegionRatelimit', peer[traffic]),
  ]),
  notes: [
    `Three redis-servers; between two regions a round trip takes ${ROUND_TRIP_MS} ms. Twice the limit is sent, steadily, for two windows of 15 s; the second one is judged.`,
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
