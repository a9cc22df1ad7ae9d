// Requests of very many subjects, each with an address of its own.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Target } from '../gateway/candidates.ts';

export interface SubjectsRequest {
  readonly target: Target;
  /** The number of the first address. There are 2^24 of them. */
  readonly from: number;
  readonly count: number;
  readonly concurrency: number;
}

/** What the thread says. */
export type SubjectsReport = { readonly uncounted: readonly string[] } | { readonly failure: string };

export interface SubjectsLoad extends AsyncDisposable {
  /** Why requests were not answered as they should be. */
  run(request: SubjectsRequest): Promise<readonly string[]>;
}

/** In a thread of its own, because the gateway of Redis and the origin have this one. */
export function startSubjectsLoad(): SubjectsLoad {
  const thread = new Worker(new URL('./load-thread.ts', import.meta.url));
  return {
    async run(request) {
      thread.postMessage(request);
      const [report] = (await once(thread, 'message')) as [SubjectsReport];
      if ('failure' in report) throw new Error(report.failure);
      return report.uncounted;
    },
    async [Symbol.asyncDispose]() {
      await thread.terminate();
    },
  };
}
