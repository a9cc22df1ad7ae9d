// Puts a candidate under load for a short while and tells how many requests a second it answered, and how fast.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Target } from './candidates.ts';

export interface LoadRequest {
  readonly target: Target;
  readonly ms: number;
  /** Connections that ask again as soon as they have an answer; or requests a second, whatever is answered. */
  readonly pace: { readonly connections: number } | { readonly perSecond: number };
}

/** Requests that nobody counts: they open the connections, and make V8 compile what is called often. */
export interface WarmUpRequest {
  readonly target: Target;
  readonly connections: number;
  readonly warmUpRequests: number;
}

export interface LoadResult {
  /** Of the requests that were counted. */
  readonly latenciesMs: readonly number[];
  /** Why each of the others was not. */
  readonly uncounted: readonly string[];
  /** Until the last answer had come. */
  readonly elapsedMs: number;
}

/** What the thread says. */
export type LoadReport = LoadResult | { readonly failure: string };

export interface Load extends AsyncDisposable {
  run(request: LoadRequest): Promise<LoadResult>;
  warmUp(request: WarmUpRequest): Promise<void>;
}

/** In a thread of its own, because the gateway of Redis and the origin have this one. */
export function startLoad(): Load {
  const thread = new Worker(new URL('./load-thread.ts', import.meta.url));
  const run = async (request: LoadRequest | WarmUpRequest): Promise<LoadResult> => {
    thread.postMessage(request);
    const [report] = (await once(thread, 'message')) as [LoadReport];
    if ('failure' in report) throw new Error(report.failure);
    return report;
  };
  return {
    run,
    warmUp: async (request) => void (await run(request)),
    async [Symbol.asyncDispose]() {
      await thread.terminate();
    },
  };
}
