// How much memory a Worker holds: its JavaScript heap after a collection, and all that its process has.
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectInspector, type Inspector } from '../gateway/inspector.ts';

export interface MemorySample {
  /** Of JavaScript objects that are still reachable, ArrayBuffers and the like included. */
  readonly heapMb: number;
  /** Of the whole process; NaN where the system does not tell it. */
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
  // What the first finds dead may have kept something else alive.
  for (let i = 0; i < 3; i += 1) await collect(inspector, ask);
  const { usedSize, backingStorageSize = 0 } = await inspector.call<HeapUsage>('Runtime.getHeapUsage');
  return { heapMb: (usedSize + backingStorageSize) / MEGABYTE, processMb: await residentMb(pid) };
}

/** workerd collects when the Worker runs next, so something has to make it run. */
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
