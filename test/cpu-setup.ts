import { appendFileSync } from 'node:fs';
import { afterAll, expect } from 'vitest';
const state = globalThis as unknown as { lastCpu?: NodeJS.CpuUsage };
const from = state.lastCpu ?? { user: 0, system: 0 };
afterAll(() => {
  const now = process.cpuUsage();
  state.lastCpu = now;
  const ms = (now.user + now.system - from.user - from.system) / 1000;
  appendFileSync('/tmp/suite-runs/cpu.txt', `${Math.round(ms)} ${process.pid} ${expect.getState().testPath?.replace('/tmp/wt/suite/', '')}\n`);
});
