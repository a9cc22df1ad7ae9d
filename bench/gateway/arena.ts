// Runs all candidates: one local stack, and workerd processes that serve them, with Weir as deployed.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { buildWorker, modulesIn } from '../../local/bundle.ts';
import { readCompatibility } from '../../local/isolates.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { LIMIT, RULES } from './limits.ts';
import { forgetSplit, startOneRegion } from './one-region.ts';
import {
  type ServedWorker,
  type ServeOptions,
  serveWorkers,
  type Workerd,
  type WorkerModule,
} from './workerd.ts';

export interface Arena extends AsyncDisposable {
  /** A workerd process with all candidates, and Weir's rules in force. */
  serve(options?: Pick<ServeOptions, 'inspect' | 'mostHeapMb'>): Promise<Workerd>;
  /** One Worker in a process of its own. It reads its rules from the KV of `all`, which has published them. */
  serveAlone(name: string, all: Workerd, options?: Pick<ServeOptions, 'under'>): Promise<Workerd>;
  /** From now on, every call to Redis takes this much longer. */
  setDistance(ms: number): Promise<void>;
}

export const ANY_PORTS = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
export const ADMIN_TOKEN = 'an-admin-token-for-benches';
/**
 * All parts share this machine, and this bench does not measure the deadline. Valgrind stops for seconds when it begins
 * to count. A request that asked the next region meanwhile would make V8 compile again.
 */
const DEADLINE_MS = '60000';

/** Workers that store the rules in force: of three regions, and of one. */
const KVS = ['kv', 'kv-one-region'] as const;

const pick = (urls: Workerd['urls'], names: readonly string[]) =>
  Object.fromEntries(names.map((name) => [name, urls[name] ?? '']));

export async function startArena({ say, parts }: BenchOptions): Promise<Arena> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-gateway-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir and those beside it');
  const weirModules = await bundleWeir(folder, parts.bundle);
  await bundleOthers(folder);
  const stack = cleanup.use(await startStack({ ports: ANY_PORTS, databaseUrl: parts.databaseUrl, say }));
  const oneRegion = await startOneRegion(cleanup);
  const usual = { kv: KVS[0] };
  const single = { kv: KVS[1], regions: oneRegion.variable };
  const workers = [
    weirOn(stack, weirModules, { name: 'weir', ...usual }),
    weirOn(stack, weirModules, { name: 'weir-five-rules', ...usual }),
    weirOn(stack, weirModules, { name: 'weir-one-region', ...single }),
    weirOn(stack, weirModules, { name: 'publisher', ...usual }),
    weirOn(stack, weirModules, { name: 'publisher-one-region', ...single }),
    ...othersOn(stack),
  ];
  const gateways = [oneRegion, ...stack.regions].map(({ gateway }) => gateway);
  const compatibility = await readCompatibility();
  const owned = cleanup.move();
  return {
    async serve(options) {
      const workerd = await serveWorkers({ folder, compatibility, workers, ...options });
      await publishAll(workerd, stack).catch(async (error: unknown) => {
        await workerd[Symbol.asyncDispose]();
        throw error;
      });
      return workerd;
    },
    serveAlone: (name, { urls }, options) =>
      serveWorkers({
        folder,
        compatibility,
        workers: workers.filter((worker) => worker.name === name),
        elsewhere: pick(urls, KVS),
        ...options,
      }),
    async setDistance(ms) {
      await Promise.all(
        gateways.map(({ faults }) => (ms > 0 ? faults.set({ latencyMs: ms }) : faults.clear())),
      );
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/**
 * Through isolates that are not measured. An isolate that publishes loads the admin side into its heap. Most isolates
 * that serve requests never do.
 */
async function publishAll({ urls }: Workerd, { databaseUrl }: Stack): Promise<void> {
  for (const name of ['publisher-one-region', 'publisher']) {
    await forgetSplit(databaseUrl);
    await putRulesInForce(urls[name] ?? '', RULES);
  }
}

/** As `wrangler deploy` would upload it. `bundle` is a folder with an existing build. */
export async function bundleWeir(folder: string, bundle?: string): Promise<WorkerModule[]> {
  const own = join(folder, 'weir');
  await (bundle === undefined ? buildWorker(own) : cp(bundle, own, { recursive: true }));
  return weirModulesIn(folder);
}

/** The modules of an existing bundle. */
export const weirModulesIn = async (folder: string): Promise<WorkerModule[]> =>
  (await modulesIn(join(folder, 'weir'))).map((name) => ({ name, type: 'esModule', path: `weir/${name}` }));

const OTHERS = ['kv', 'bare', 'proxy', 'ping', 'fair-proxy', 'fair-ping', 'upstash', 'fair-upstash'];

export const bundleOthers = (folder: string, names: readonly string[] = OTHERS): Promise<void> =>
  bundleWorkers(
    folder,
    names.map((name) => new URL(`./worker-${name}.ts`, import.meta.url)),
  );

/** Minified, as wrangler does for Weir. */
export async function bundleWorkers(folder: string, files: readonly URL[]): Promise<void> {
  await build({
    entryPoints: files.map((file) => fileURLToPath(file)),
    outdir: folder,
    entryNames: '[name]',
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    logLevel: 'error',
  });
}

export interface WeirOptions {
  readonly name: string;
  readonly kv: string;
  /** The value of REGIONS, if it differs from that of the stack. */
  readonly regions?: string;
}

export function weirOn(
  stack: Stack,
  modules: readonly WorkerModule[],
  { name, kv, regions = stack.variables['REGIONS'] ?? '' }: WeirOptions,
): ServedWorker {
  // Requests come from near the first region, whose Redis the other candidates use, too. The origin is on this machine.
  const deployed = {
    ENVIRONMENT: 'production',
    PLAIN_HTTP: 'allow',
    PRIVATE_ORIGINS: 'allow',
    DEGRADED_HEADER: 'on',
    REGIONS: regions,
  };
  const variables = { ...stack.variables, ...deployed, ADMIN_TOKEN, DEADLINE_MS };
  return { name, modules, variables, kv: { RULES: kv } };
}

function othersOn({ originUrl, regions: [region] }: Stack): ServedWorker[] {
  if (!region) throw new Error('the local stack has no region');
  const { url, token } = region.gateway;
  const variables = { ORIGIN_URL: originUrl, REDIS_URL: url, REDIS_TOKEN: token, DEADLINE_MS };
  const worker = (name: string, file = name, limits = {}): ServedWorker => ({
    name,
    modules: [{ name: 'index.js', type: 'esModule', path: `worker-${file}.js` }],
    variables: { ...variables, ...limits },
  });
  const peer = (name: string, file: string, count: number, order = 'one after the other') =>
    worker(name, file, { LIMIT: String(LIMIT), LIMIT_COUNT: String(count), LIMIT_ORDER: order });
  return [
    ...['kv', 'bare', 'proxy', 'ping', 'fair-proxy', 'fair-ping'].map((name) => worker(name)),
    worker(KVS[1], 'kv'),
    ...[1, 3, 5].map((count) => peer(`upstash-${count}`, 'upstash', count)),
    peer('upstash-5-parallel', 'upstash', 5, 'parallel'),
    ...[1, 5].map((count) => peer(`fair-upstash-${count}`, 'fair-upstash', count)),
  ];
}

/** Publishes each time, because the KV of a new process is empty. */
export const putRulesInForce = (url: string, rules: readonly object[]): Promise<void> =>
  putRulesInForceBy(async (path, request) => (await fetch(url + path, request)).status, rules);

export async function putRulesInForceBy(
  ask: (path: string, request: RequestInit) => Promise<number>,
  rules: readonly object[],
): Promise<void> {
  const post = async (path: string, body: object) => {
    const headers = { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' };
    const request = { method: 'POST', headers, body: JSON.stringify(body) };
    const status = await ask(`/_weir/admin${path}`, request);
    if (status >= 300) throw new Error(`${path}: ${status}`);
  };
  await post('/import', { weir: 1, rules });
  await post('/publish', {});
}
