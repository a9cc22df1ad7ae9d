// Runs several isolates of the built Worker that share one KV, as at the edge. Each has its own memory. For tests and
// benches.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { convertV4MiniflareOptions, Miniflare } from 'miniflare';
import { buildWorker, modulesIn } from './bundle.ts';
import { DEMO_BINDING, DEMO_WORKER, demoWorker } from './demo-worker/miniflare.ts';
import { createKvFaultSwitch, type KvFaultSwitch } from './kv-faults/faults.ts';
import { KV_WORKER, kvBinding, kvControlUrl, kvWorker } from './kv-faults/miniflare.ts';
import { ASSETS } from './page-build.ts';
import { LOOPBACK } from './ports.ts';

export interface IsolatesOptions {
  readonly names: readonly string[];
  /** The folder that `buildWorker` has written to. Without it, the Worker is built. */
  readonly bundle?: string | undefined;
  readonly variables: Readonly<Record<string, string>>;
  /** The name of a queue for denials and usage. All isolates send to it, and the first one consumes it. */
  readonly queue?: string | undefined;
  /**
   * How often the queue retries a batch before it moves to the dead-letter queue. The default is that of wrangler.toml.
   */
  readonly queueRetries?: number | undefined;
  /** Whether Miniflare serves the files of the page in front of each isolate, as wrangler.toml says. */
  readonly hasPage?: boolean | undefined;
}

export interface Isolates extends AsyncDisposable {
  /** The address of each isolate, by its name. */
  readonly urls: Readonly<Record<string, string>>;
  /** The KV that all isolates share, without faults. Miniflare takes a while to open it. */
  kv(): ReturnType<Miniflare['getKVNamespace']>;
  /** Breaks KV for all isolates while they run. */
  readonly kvFaults: KvFaultSwitch;
  /** Runs the cron trigger in one isolate. */
  scheduled(name: string): Promise<void>;
  /** Delivers messages of a queue to one isolate, as Cloudflare does: until it has consumed them, or was killed. */
  deliver(name: string, queue: string, bodies: readonly unknown[]): Promise<void>;
}

export async function startIsolates(options: IsolatesOptions): Promise<Isolates> {
  const { names, bundle, variables, queue, queueRetries, hasPage = false } = options;
  await using cleanup = new AsyncDisposableStack();
  const folder = bundle ?? (await buildInto(cleanup));
  const compatibility = await readCompatibility();

  const modules = await listModules(folder);
  const isolates = names.map((name, place) => ({
    name,
    rootPath: folder,
    modules,
    ...compatibility,
    bindings: { ...variables },
    unsafeBindings: [kvBinding('RULES')],
    serviceBindings: { [DEMO_BINDING]: DEMO_WORKER },
    ...(hasPage && { assets: PAGE_FILES }),
    ...(queue && { queueProducers: { RECORDS: queue } }),
    ...(queue && place === 0 && { queueConsumers: consumersOf(queue, queueRetries) }),
    unsafeDirectSockets: [{ host: LOOPBACK, port: 0 }],
  }));
  const workers = [...isolates, await kvWorker(compatibility), await demoWorker(compatibility)];
  const miniflare = new Miniflare(convertV4MiniflareOptions({ workers }));
  cleanup.defer(() => miniflare.dispose());
  await miniflare.ready;

  const urls: Record<string, string> = {};
  for (const name of names) urls[name] = (await miniflare.unsafeGetDirectURL(name)).origin;
  const kvFaults = createKvFaultSwitch(await kvControlUrl(miniflare));
  const owned = cleanup.move();
  return {
    urls,
    kv: () => miniflare.getKVNamespace('RULES', KV_WORKER),
    kvFaults,
    async scheduled(name) {
      const worker = await miniflare.getWorker(name);
      const { outcome } = await worker.scheduled();
      if (outcome !== 'ok') throw new Error(`the cron run ended with ${outcome}`);
    },
    async deliver(name, queue, bodies) {
      const worker = await miniflare.getWorker(name);
      const messages = bodies.map((body) => ({
        id: crypto.randomUUID(),
        timestamp: new Date(),
        attempts: 1,
        body,
      }));
      const { outcome, retryMessages } = await worker.queue(queue, messages);
      if (outcome !== 'ok' || retryMessages.length > 0)
        throw new Error(`${retryMessages.length} messages were left: ${outcome}`);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The same values as in wrangler.toml. */
const PAGE_FILES = {
  directory: ASSETS,
  routerConfig: { has_user_worker: true },
  assetConfig: { html_handling: 'none' as const },
  run_worker_first: ['/*', '!/_weir/page/*'],
};

/** The same values as in wrangler.toml, except for the time until a batch is delivered. */
const consumersOf = (queue: string, maxRetries = 10) => ({
  [queue]: { maxBatchSize: 10, maxBatchTimeout: 0.1, maxRetries, deadLetterQueue: `${queue}-dead` },
  [`${queue}-dead`]: { maxBatchSize: 10, maxBatchTimeout: 0.1, maxRetries: 100 },
});

async function buildInto(cleanup: AsyncDisposableStack): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-worker-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  await buildWorker(folder);
  return folder;
}

const listModules = async (folder: string) =>
  (await modulesIn(folder)).map((name) => ({ type: 'ESModule' as const, path: join(folder, name) }));

/** Reads them from wrangler.toml. */
export async function readCompatibility(): Promise<{
  compatibilityDate: string;
  compatibilityFlags: string[];
}> {
  const text = await readFile(new URL('../wrangler.toml', import.meta.url), 'utf8');
  const date = /^compatibility_date = "([\d-]+)"$/m.exec(text)?.[1];
  if (date === undefined) throw new Error('wrangler.toml names no compatibility_date');
  const flags = /^compatibility_flags = (\[.*\])$/m.exec(text)?.[1] ?? '[]';
  return { compatibilityDate: date, compatibilityFlags: JSON.parse(flags) };
}
