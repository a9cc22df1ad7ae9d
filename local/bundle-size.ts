// Builds the Worker as `wrangler deploy` would and holds its gzip size under two budgets: what every cold isolate reads,
// and all that is uploaded.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { buildWorker, modulesIn } from './bundle.ts';

const GATEWAY_KIB = 100;
const ALL_KIB = 305;

/** The modules that are evaluated with `name`. What `import()` loads is not among them. */
async function evaluatedWith(folder: string, name: string, known = new Map<string, string>()) {
  const code = await readFile(join(folder, name), 'utf8');
  known.set(name, code);
  for (const [, imported = ''] of code.matchAll(/(?:from|import)\s*"\.\/([^"]+)"/g))
    if (!known.has(imported)) await evaluatedWith(folder, imported, known);
  return known;
}

const gzipKib = (texts: Iterable<string>) => gzipSync([...texts].join('')).length / 1024;

function hold(what: string, kib: number, budgetKib: number): void {
  console.log(`${what}: ${kib.toFixed(1)} KiB gzip, budget ${budgetKib} KiB`);
  if (kib <= budgetKib) return;
  console.error(`${what} is ${(kib - budgetKib).toFixed(1)} KiB over its budget`);
  process.exitCode = 1;
}

const folder = await mkdtemp(join(tmpdir(), 'weir-size-'));
try {
  await buildWorker(folder);
  const gateway = await evaluatedWith(folder, 'index.js');
  const names = await modulesIn(folder);
  const all = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')));
  hold(`the gateway (${[...gateway.keys()].join(', ')})`, gzipKib(gateway.values()), GATEWAY_KIB);
  hold(`all ${names.length} modules`, gzipKib(all), ALL_KIB);
} finally {
  await rm(folder, { recursive: true, force: true });
}
