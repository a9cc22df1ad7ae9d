// Before the first test: installs the programs that tests need, or says which to install, and starts the process of the
// shared parts. These have their own process, because this one is busy resolving modules for the tests.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { findOrInstallCallgrind } from '../../bench/instructions/callgrind.ts';
import { findOrInstallChromium } from '../../local/chromium.ts';
import { findOrInstallAll } from '../../local/packages.ts';
import { StackError } from '../../local/ports.ts';
import { findOrInstallPostgres } from '../../local/postgres-server.ts';
import { findOrInstallPrometheus } from '../../local/prometheus.ts';
import { findOrInstallRedis } from '../../local/redis-server.ts';

export default async function setup(project: TestProject) {
  await findPrograms();
  const child = fork(fileURLToPath(new URL('./parts-process.ts', import.meta.url)));
  const ended = once(child, 'exit');
  const [url] = await Promise.race([once(child, 'message'), ended.then(failed)]);
  project.provide('sharedParts', url);
  return async () => {
    child.disconnect();
    await ended;
  };
}

/** Everything that a whole run needs. In a run of some files, each file asks for what it needs. */
async function findPrograms(): Promise<void> {
  const namesFiles = process.argv.slice(2).some((word) => word !== 'run' && !word.startsWith('-'));
  const isWhole = !namesFiles && process.env['WEIR_LUA'] !== 'gopher';
  const others = [
    findOrInstallPostgres,
    findOrInstallChromium,
    findOrInstallPrometheus,
    findOrInstallCallgrind,
  ];
  const needed = [findOrInstallRedis, ...(isWhole ? others : [])];
  await findOrInstallAll({ say: (line) => console.log(line) }, needed).catch((error: unknown) => {
    if (!(error instanceof StackError)) throw error;
    // Otherwise Vitest would first say that there are no test files, and print a stack.
    console.error(`\n${error.message}\n`);
    process.exit(1);
  });
}

function failed(): never {
  throw new Error('the process of the shared parts did not start: see above');
}
