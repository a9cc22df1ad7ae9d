// What a request allocates in a Worker's isolate: sampled by V8 itself, those objects included that are gone again.
import { connectInspector } from './inspector.ts';

interface ProfileNode {
  readonly selfSize: number;
  readonly children: readonly ProfileNode[];
}

/** V8 takes a sample every so many bytes, on average. */
const SAMPLE_BYTES = 4_096;

/** Bytes of JavaScript objects for one request. `work` answers how many requests it has made. */
export async function measureHeap(inspectorUrl: string, work: () => Promise<number>): Promise<number> {
  using inspector = await connectInspector(inspectorUrl);
  // The first ones compile code and fill caches.
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
