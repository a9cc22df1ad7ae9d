// Measures the memory of a Worker: its JavaScript heap after a collection, and its whole process.
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectInspector, type Inspector } from '../gateway/inspector.ts';

export interface MemorySample {
  /** Reachable JavaScript objects, including ArrayBuffers and the like. */
  readonly heapMb: number;
  /** The whole process. NaN if the system does not report it. */
  readonly processMb: number;
}

interface HeapUsage {
  readonly usedSize: number;
  readonly backingStorageSize?: number;
}

const MEGABYTE = 1_024 * 1_024;

export interface Sampled {
  readonly inspectorUrl: string;
  readonly pid: number;
  /** Makes any request to the Worker. */
  ask(): Promise<void>;
}

export async function sampleMemory({ inspectorUrl, pid, ask }: Sampled): Promise<MemorySample> {
  using inspector = await connectInspector(inspectorUrl);
  await inspector.call('HeapProfiler.enable');
  // Several times, because an object that the first collection finds dead may have kept another alive.
  for (let i = 0; i < 3; i += 1) await collect(inspector, ask);
  const { usedSize, backingStorageSize = 0 } = await inspector.call<HeapUsage>('Runtime.getHeapUsage');
  return { heapMb: (usedSize + backingStorageSize) / MEGABYTE, processMb: await residentMb(pid) };
}

/** workerd collects when the Worker next runs, so the bench must make it run. */
async function collect(inspector: Inspector, ask: () => Promise<void>): Promise<void> {
  let isDone = false;
  const collected = inspector.call('HeapProfiler.collectGarbage').then(() => {
    isDone = true;
  });
  while (!isDone) await Promise.all([ask(), Promise.race([collected, sleep(100)])]);
}

async function residentMb(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN) / 1_024;
}
