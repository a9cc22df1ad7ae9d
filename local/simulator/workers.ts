// Runs episodes in threads. Each thread has its own virtual time.
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import type { Episode } from './episode.ts';
import { type EpisodeName, runNamed } from './run.ts';

export interface EpisodeWorker extends AsyncDisposable {
  run(name: EpisodeName): Promise<Episode>;
}

export function startWorker(): EpisodeWorker {
  const worker = new Worker(new URL(import.meta.url));
  return {
    run: (name) =>
      new Promise((resolve, reject) => {
        worker.once('error', reject);
        worker.once('message', (episode: Episode) => {
          worker.removeListener('error', reject);
          resolve(episode);
        });
        worker.postMessage(name);
      }),
    [Symbol.asyncDispose]: async () => void (await worker.terminate()),
  };
}

if (!isMainThread) {
  // Each call to a region that does not answer makes an error, and nobody reads its stack.
  Error.stackTraceLimit = 0;
  parentPort?.on('message', async (name: EpisodeName) => parentPort?.postMessage(await runNamed(name)));
}
