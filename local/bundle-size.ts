// Builds the Worker as `wrangler deploy` would, and checks its size against two budgets.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buildWorker } from './bundle.ts';
import { measureModules } from './module-sizes.ts';

/** A larger gateway makes every cold start slower. */
const GATEWAY_KIB = 103;
const ALL_KIB = 390;

function hold(what: string, kib: number, budgetKib: number): void {
  console.log(`${what}: ${kib.toFixed(1)} KiB gzip, budget ${budgetKib} KiB`);
  if (kib <= budgetKib) return;
  console.error(`${what} is ${(kib - budgetKib).toFixed(1)} KiB over its budget`);
  process.exitCode = 1;
}

const folder = await mkdtemp(join(tmpdir(), 'weir-size-'));
try {
  await buildWorker(folder);
  const { gateway, gatewayKib, all, allKib } = await measureModules(folder);
  hold(`the gateway (${gateway.join(', ')})`, gatewayKib, GATEWAY_KIB);
  hold(`all ${all.length} modules`, allKib, ALL_KIB);
} finally {
  await rm(folder, { recursive: true, force: true });
}
