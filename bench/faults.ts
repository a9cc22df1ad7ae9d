// What a fault of Redis does to those who are served, and what remembered denials do to those who are denied: Weir as it
// runs, beside @upstash/ratelimit.
import { readFile } from 'node:fs/promises';
import { prepareSite, type Site } from './faults/arena.ts';
import { type HotRun, measureDenialCache, summarize } from './faults/denial-cache.ts';
import { settle } from './faults/outage.ts';
import { measureOutages, type Outage } from './faults/outages.ts';
import { DEADLINE_MS } from './faults/rules.ts';
import { denialTable, outageTable, peerTable } from './faults/tables.ts';
import type { Bench, Table } from './shared/bench.ts';

type Say = (line: string) => void;
/** All parts share this machine: what is remembered has nothing to do with the deadline. */
const PATIENT_MS = 5_000;

export const run: Bench = async ({ say }) => {
  await using site = await prepareSite(say);
  const { outages, rss } = await suffer(site, say);
  const runs = await overload(site, say);
  return {
    tables: [outageTable(outages), peerTable(outages), denialTable(runs), memoryTable(rss)],
    json: {
      faults: Object.fromEntries(outages.map(({ fault, scope, weir }) => [`${fault}/${scope}`, weir])),
      peer: {
        faults: Object.fromEntries(outages.flatMap(({ fault, peer }) => (peer ? [[fault, peer]] : []))),
        ...summarize(runs, 'peer'),
      },
      denialCache: summarize(runs, 'Weir'),
      rssMiB: rss,
    },
  };
};

interface Rss {
  readonly before: number;
  readonly after: number;
}

async function suffer(site: Site, say: Say): Promise<{ outages: Outage[]; rss: Rss }> {
  await using arena = await site.serve({ deadlineMs: DEADLINE_MS });
  await settle(arena);
  const before = await rssMiB(arena.workerd.pid);
  const outages = await measureOutages(arena, say);
  return { outages, rss: { before, after: await rssMiB(arena.workerd.pid) } };
}

async function overload(site: Site, say: Say): Promise<HotRun[]> {
  await using arena = await site.serve({ deadlineMs: PATIENT_MS });
  await settle(arena);
  return await measureDenialCache(arena, say);
}

/** NaN where the system does not tell it. */
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
