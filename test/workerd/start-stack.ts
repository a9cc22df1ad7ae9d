// Starts the stack around the Worker under test. In a process of its own, because the modules of this
// project are resolved for workerd, which the stack is not made for.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

export default async function setup(project: TestProject) {
  const child = fork(fileURLToPath(new URL('./stack-process.ts', import.meta.url)));
  const ended = once(child, 'exit');
  const [variables] = await Promise.race([once(child, 'message'), ended.then(failed)]);
  project.provide('workerVariables', {
    ...variables,
    ADMIN_TOKEN: 'an-admin-token-for-tests',
    // All parts share this machine: what is tested here is not the deadline.
    DEADLINE_MS: '2000',
  });
  return async () => {
    child.disconnect();
    await ended;
  };
}

function failed(): never {
  throw new Error('the local stack did not start: see above');
}
