// Requests of very many subjects, each with its own address.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Target } from '../gateway/candidates.ts';

export interface SubjectsRequest {
  readonly target: Target;
  /** The number of the first address. There are 2^24 addresses. */
  readonly from: number;
  readonly count: number;
  readonly concurrency: number;
}

/** A message of the thread. */
export type SubjectsReport = { readonly uncounted: readonly string[] } | { readonly failure: string };

export interface SubjectsLoad extends AsyncDisposable {
  /** Resolves to why requests were not answered as expected. */
  run(request: SubjectsRequest): Promise<readonly string[]>;
}

/** Runs in its own thread, because the gateway of Redis and the origin use this one. */
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
