// Measures what a request allocates in a Worker's isolate. V8 samples all objects, even those that it has collected.
import { connectInspector } from './inspector.ts';

interface ProfileNode {
  readonly selfSize: number;
  readonly children: readonly ProfileNode[];
}

/** V8 takes a sample every this many bytes, on average. */
const SAMPLE_BYTES = 4_096;

/** Bytes of JavaScript objects for one request. `work` resolves to the number of requests it made. */
export async function measureHeap(inspectorUrl: string, work: () => Promise<number>): Promise<number> {
  using inspector = await connectInspector(inspectorUrl);
  // The first requests compile code and fill caches.
  await work();
  await inspector.call('HeapProfiler.enable');
  await inspector.call('HeapProfiler.startSampling', {
    samplingInterval: SAMPLE_BYTES,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  const requests = await work();
  const { profile } = await inspector.call<{ profile: { head: ProfileNode } }>('HeapProfiler.stopSampling');
  return bytesIn(profile.head) / requests;
}

const bytesIn = ({ selfSize, children }: ProfileNode): number =>
  children.reduce((sum, child) => sum + bytesIn(child), selfSize);
