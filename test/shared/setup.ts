// Before the first test: a redis-server is there, or it is said what to install; and the process of the shared parts runs.
// Not in this process, which resolves modules for the tests and is busy with them.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';
import { findOrInstallRedis } from '../../local/redis-server.ts';

export default async function setup(project: TestProject) {
  await findOrInstallRedis({ say: (line) => console.log(line) });
  const child = fork(fileURLToPath(new URL('./parts-process.ts', import.meta.url)));
  const ended = once(child, 'exit');
  const [url] = await Promise.race([once(child, 'message'), ended.then(failed)]);
  project.provide('sharedParts', url);
  return async () => {
    child.disconnect();
    await ended;
  };
}

function failed(): never {
  throw new Error('the process of the shared parts did not start: see above');
}
