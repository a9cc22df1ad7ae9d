// Builds the Worker as `wrangler deploy` would and holds its gzip size under a budget.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildWorker } from './bundle.ts';

const BUDGET_KIB = 325;

const folder = await mkdtemp(join(tmpdir(), 'weir-size-'));
const output = await buildWorker(folder).finally(() => rm(folder, { recursive: true, force: true }));
const gzipKib = Number(/gzip: ([\d.]+) KiB/.exec(output)?.[1]);
if (Number.isNaN(gzipKib)) {
  console.error(`wrangler printed no bundle size:\n${output}`);
  process.exit(1);
}
console.log(`bundle: ${gzipKib} KiB gzip, budget ${BUDGET_KIB} KiB`);
if (gzipKib > BUDGET_KIB) {
  console.error(`the bundle is ${(gzipKib - BUDGET_KIB).toFixed(1)} KiB over its budget`);
  process.exit(1);
}
