// The real stack around the Worker under test, on free ports; ends with the run.
import type { TestProject } from 'vitest/node';
import { startStack } from '../../local/stack.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly workerVariables: Record<string, string>;
  }
}

export const ADMIN_TOKEN = 'an-admin-token-for-tests';

export default async function setup(project: TestProject) {
  const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
  const stack = await startStack({ ports, say: () => {} });
  project.provide('workerVariables', { ...stack.variables, ADMIN_TOKEN });
  return () => stack[Symbol.asyncDispose]();
}
