// Measures the start of a cold isolate, as `wrangler check startup` profiles it: processor time until the Worker can
// take its first request. Load on the machine adds to it, so the smallest of several runs is the best figure.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildWorker, runWrangler, uploadIn } from '../local/bundle.ts';
import { measureModules } from '../local/module-sizes.ts';
import type { Bench, Table } from './shared/bench.ts';
import { median } from './shared/rounds.ts';

export const measures = 'processor time of a cold start, and the sizes of what is deployed';

export const keys = ['activeMs.least', 'activeMs.median', 'gatewayKib', 'allKib'];

const RUNS = 5;
const BUDGET_MS = 35;

export const run: Bench = async ({ say, scaled, parts }) => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-startup-'));
  try {
    const bundle = parts.bundle ?? folder;
    if (parts.bundle === undefined) {
      say('building the Worker');
      await buildWorker(bundle);
    }
    const { gatewayKib, allKib } = await measureModules(bundle);
    const runs: number[] = [];
    while (runs.length < scaled(RUNS)) {
      runs.push(await profile(uploadIn(bundle), join(folder, 'startup.cpuprofile')));
      say(`start ${runs.length}: ${runs.at(-1)} ms`);
    }
    const activeMs = { least: Math.min(...runs), median: median(runs), runs };
    return { tables: [toTable({ activeMs, gatewayKib, allKib })], json: { activeMs, gatewayKib, allKib } };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

interface Startup {
  readonly activeMs: { readonly least: number; readonly median: number };
  readonly gatewayKib: number;
  readonly allKib: number;
}

const toTable = ({ activeMs, gatewayKib, allKib }: Startup): Table => ({
  title: 'Cold start',
  head: ['', 'measured', 'budget'],
  rows: [
    ['active, least, ms', activeMs.least.toFixed(1), BUDGET_MS],
    ['active, median, ms', activeMs.median.toFixed(1), ''],
    ['the gateway, KiB gzip', gatewayKib.toFixed(1), ''],
    ['all modules, KiB gzip', allKib.toFixed(1), ''],
  ],
  notes: ['`npm run check` holds the budgets of the sizes.'],
});

async function profile(upload: string, outfile: string): Promise<number> {
  const printed = await runWrangler('check', 'startup', '--worker', upload, '--outfile', outfile);
  const [, activeMs] = /Active: ([\d.]+) ms/.exec(printed) ?? [];
  if (activeMs === undefined) throw new Error(`wrangler printed no active time:\n${printed}`);
  return Number(activeMs);
}
