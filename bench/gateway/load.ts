// Puts a candidate under load for a short while. Reports how many requests a second it answered, and how fast.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import type { Target } from './candidates.ts';

export interface LoadRequest {
  readonly target: Target;
  readonly ms: number;
  /** Connections that ask again as soon as they have an answer; or requests a second, whatever is answered. */
  readonly pace: { readonly connections: number } | { readonly perSecond: number };
}

/** Requests that are not measured: they open the connections, and make V8 compile hot code. */
export interface WarmUpRequest {
  readonly target: Target;
  readonly connections: number;
  readonly warmUpRequests: number;
}

export interface LoadResult {
  /** The times of the requests that were counted. */
  readonly latenciesMs: readonly number[];
  /** Why each of the others was not counted. */
  readonly uncounted: readonly string[];
  /** Until the last answer. */
  readonly elapsedMs: number;
}

/** A message of the thread. */
export type LoadReport = LoadResult | { readonly failure: string };

export interface Load extends AsyncDisposable {
  run(request: LoadRequest): Promise<LoadResult>;
  warmUp(request: WarmUpRequest): Promise<void>;
}

/** Runs in its own thread, because the gateway of Redis and the origin use this one. */
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
