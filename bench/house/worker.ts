// The built Worker in this process, on a real Redis of each region and a real Postgres. KV and the queue are in memory.

import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { startStack } from '../../local/stack.ts';
import { WORKER_BUILD } from '../../local/worker-build.ts';
import { ADMIN_TOKEN, ANY_PORTS } from '../gateway/arena.ts';
import type { BenchOptions } from '../shared/bench.ts';

/** How often a response is followed by a flush. */
export const FLUSH_SECONDS = 2;

export interface WorkerHere extends AsyncDisposable {
  /** Where its modules are. */
  readonly folder: string;
  /** Returns the status once the body has arrived. */
  ask(path: string, request?: RequestInit): Promise<number>;
  /** Waits for all work after the responses so far, such as a flush. */
  settle(): Promise<void>;
  /** Delivers what was sent to the queue. Returns how many messages there were. */
  deliver(): Promise<number>;
}

/** What a bench calls of src/worker.ts. Its types need those of the Workers runtime. */
interface BuiltWorker {
  fetch(request: Request, env: object, context: object): Promise<Response>;
  queue(batch: object, env: object): Promise<void>;
}

export async function startWorkerHere({ say, parts }: BenchOptions): Promise<WorkerHere> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-house-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir, not minified');
  const entryPoints = { index: fileURLToPath(new URL('../../src/worker.ts', import.meta.url)) };
  await build({
    ...WORKER_BUILD,
    ...{ entryPoints, outdir: folder, minify: false, logLevel: 'error' },
    outExtension: { '.js': '.mjs' },
    plugins: [withoutRuntime],
  });
  const stack = cleanup.use(await startStack({ ports: ANY_PORTS, databaseUrl: parts.databaseUrl, say }));
  const { default: worker } = (await import(pathToFileURL(join(folder, 'index.mjs')).href)) as {
    default: BuiltWorker;
  };
  const values = new Map<string, string>();
  const queued: unknown[] = [];
  const env = {
    ...stack.variables,
    ...{ ADMIN_TOKEN, TELEMETRY_SECONDS: String(FLUSH_SECONDS) },
    RULES: {
      get: async (name: string) => values.get(name) ?? null,
      put: async (name: string, text: string) => void values.set(name, text),
    },
    RECORDS: { send: async (batch: unknown) => void queued.push(batch) },
  };
  const after: Promise<unknown>[] = [];
  polyfill();
  const owned = cleanup.move();
  return {
    folder,
    async ask(path, request) {
      const context = {
        waitUntil: (work: Promise<unknown>) => after.push(work),
        passThroughOnException() {},
      };
      const url = `http://weir.example${path}`;
      const answer = await worker.fetch(new Request(url, request), env, context);
      await answer.arrayBuffer();
      return answer.status;
    },
    async settle() {
      for (let work = after.shift(); work; work = after.shift()) await work;
    },
    async deliver() {
      const messages = queued.splice(0).map((body, i) => ({
        ...{ body, id: String(i), attempts: 1, ack() {}, retry() {} },
      }));
      await worker.queue({ queue: 'records', messages }, env);
      return messages.length;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Checks by RPC need the runtime of Workers. No request here uses them. */
const withoutRuntime: Plugin = {
  name: 'without-runtime',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^cloudflare:/ }, ({ path }) => ({ path, namespace: 'runtime' }));
    onLoad({ filter: /.*/, namespace: 'runtime' }, () => ({ contents: 'export class WorkerEntrypoint {}' }));
  },
};

/** A function of Workers that Node lacks. */
function polyfill(): void {
  const digest = (bytes: ArrayBufferView) =>
    createHash('sha256')
      .update(new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength))
      .digest('hex');
  const view = (bytes: ArrayBuffer | ArrayBufferView) =>
    ArrayBuffer.isView(bytes) ? bytes : new Uint8Array(bytes);
  Object.assign(crypto.subtle, {
    timingSafeEqual: (a: ArrayBuffer, b: ArrayBuffer) => digest(view(a)) === digest(view(b)),
  });
}
