// Measures what clients see while Redis fails, and what remembered denials save: a running Weir beside
// @upstash/ratelimit.
import { readFile } from 'node:fs/promises';
import { prepareSite, type Site } from './faults/arena.ts';
import { type HotRun, measureDenialCache, reasonsOf, summarize } from './faults/denial-cache.ts';
import { settle } from './faults/outage.ts';
import { measureOutages, type Outages } from './faults/outages.ts';
import { DEADLINE_MS } from './faults/rules.ts';
import { denialTable, outageTable, peerTable } from './faults/tables.ts';
import type { Bench, BenchOptions, Table } from './shared/bench.ts';
import { tallyReasons } from './shared/reasons.ts';

/** All parts share this machine, and the deadline plays no part in remembering denials. */
const PATIENT_MS = 5_000;

export const measures =
  'what a fault of Redis does to requests, and what remembered denials save, beside @upstash/ratelimit';

const VERDICT = ['limiterErrors', 'p99OverDeadline', 'noise', 'recoveredMs', 'admittedOverCap'];
const DENIALS = ['utilization1x2', 'utilization5x', 'utilization50x', 'commandsPerDenied', 'uncounted'];

/** The figures of one fault. The short form leaves the others out. */
export const keys = [
  ...['one', 'all'].flatMap((scope) => VERDICT.map((figure) => `faults.redis-frozen/${scope}.${figure}`)),
  ...['patient', 'impatient'].flatMap((kind) =>
    VERDICT.map((figure) => `peer.faults.redis-frozen.${kind}.${figure}`),
  ),
  'unsettled',
  'isCensusKnown',
  ...['denialCache', 'peer'].flatMap((part) => DENIALS.map((figure) => `${part}.${figure}`)),
  'rssMiB.before',
  'rssMiB.after',
];

export const run: Bench = async (options) => {
  await using site = await prepareSite(options);
  const { rss, ...suffered } = await suffer(site, options);
  const { outages, unsettled, isCensusKnown } = suffered;
  const runs = await overload(site, options);
  return {
    tables: [outageTable(suffered), peerTable(outages), denialTable(runs), memoryTable(rss)],
    json: {
      faults: Object.fromEntries(outages.map(({ fault, scope, weir }) => [`${fault}/${scope}`, weir])),
      unsettled,
      isCensusKnown,
      peer: {
        faults: Object.fromEntries(outages.flatMap(({ fault, peer }) => (peer ? [[fault, peer]] : []))),
        ...summarize(runs, 'peer'),
      },
      denialCache: summarize(runs, 'Weir'),
      uncountedReasons: tallyReasons(reasonsOf(runs)),
      rssMiB: rss,
    },
  };
};

interface Rss {
  readonly before: number;
  readonly after: number;
}

async function suffer(site: Site, options: BenchOptions): Promise<Outages & { rss: Rss }> {
  await using arena = await site.serve({ deadlineMs: DEADLINE_MS });
  await settle(arena);
  const before = await rssMiB(arena.workerd.pid);
  const outages = await measureOutages(arena, options);
  return { ...outages, rss: { before, after: await rssMiB(arena.workerd.pid) } };
}

async function overload(site: Site, options: BenchOptions): Promise<HotRun[]> {
  await using arena = await site.serve({ deadlineMs: PATIENT_MS });
  await settle(arena);
  return await measureDenialCache(arena, options);
}

/** NaN if the system does not report it. */
async function rssMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1_024);
}

const memoryTable = ({ before, after }: Rss): Table => ({
  title: 'Memory of workerd, with Weir and the peer in it',
  head: ['', 'MiB'],
  rows: [
    ['before the outages', before],
    ['after them', after],
  ],
});
