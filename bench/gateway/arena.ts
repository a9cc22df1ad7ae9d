// Where the candidates meet: one local stack, and workerd processes that serve all of them, Weir as it is deployed.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { buildWorker } from '../../local/bundle.ts';
import { readCompatibility } from '../../local/isolates.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import { LIMIT, RULES } from './limits.ts';
import { type ServedWorker, serveWorkers, type Workerd, type WorkerModule } from './workerd.ts';

export interface Arena extends AsyncDisposable {
  /** A workerd process with all candidates, and Weir's rules in force. */
  serve(options?: { readonly inspect?: boolean }): Promise<Workerd>;
}

const ADMIN_TOKEN = 'an-admin-token-for-benches';
/** All parts share this machine: what is measured here is not the deadline. */
const DEADLINE_MS = '5000';

export async function startArena(say: (line: string) => void): Promise<Arena> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-gateway-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir and those beside it');
  const weirModules = await bundleWeir(folder);
  await bundleOthers(folder);
  const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
  const stack = cleanup.use(await startStack({ ports, say }));
  const workers = [weirOn(stack, weirModules), ...othersOn(stack)];
  const compatibility = await readCompatibility();
  const owned = cleanup.move();
  return {
    async serve({ inspect = false } = {}) {
      const workerd = await serveWorkers({ folder, compatibility, workers, inspect });
      await putRulesInForce(workerd.urls['weir'] ?? '').catch(async (error: unknown) => {
        await workerd[Symbol.asyncDispose]();
        throw error;
      });
      return workerd;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** As `wrangler deploy` would upload it. */
export async function bundleWeir(folder: string): Promise<WorkerModule[]> {
  await buildWorker(join(folder, 'weir'));
  return weirModulesIn(folder);
}

/** Of a bundle that is there already. */
export async function weirModulesIn(folder: string): Promise<WorkerModule[]> {
  const scripts = (await readdir(join(folder, 'weir'))).filter((name) => name.endsWith('.lua'));
  return [
    { name: 'index.js', type: 'esModule', path: 'weir/index.js' },
    ...scripts.map((name) => ({ name, type: 'text' as const, path: `weir/${name}` })),
  ];
}

const OTHERS = ['kv', 'bare', 'proxy', 'ping', 'upstash'];

/** Minified, as wrangler does it for Weir. */
export async function bundleOthers(folder: string, names: readonly string[] = OTHERS): Promise<void> {
  const files = names.map((name) => `./worker-${name}.ts`);
  await build({
    entryPoints: files.map((file) => fileURLToPath(new URL(file, import.meta.url))),
    outdir: folder,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    logLevel: 'error',
  });
}

function weirOn(stack: Stack, modules: readonly WorkerModule[]): ServedWorker {
  // Without a place, a request goes to the first region: the Redis of the others.
  const variables = { ...stack.variables, ENVIRONMENT: 'production', ADMIN_TOKEN, DEADLINE_MS };
  return { name: 'weir', modules, variables, kv: { RULES: 'kv' } };
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
  return [
    ...['kv', 'bare', 'proxy', 'ping'].map((name) => worker(name)),
    ...['1', '3', '5'].map((count) =>
      worker(`upstash-${count}`, 'upstash', { LIMIT: String(LIMIT), LIMIT_COUNT: count }),
    ),
  ];
}

/** Published each time: the KV of a new process is empty. */
async function putRulesInForce(url: string): Promise<void> {
  await admin(url, '/import', { weir: 1, rules: RULES });
  await admin(url, '/publish', {});
}

async function admin(url: string, path: string, body: object): Promise<void> {
  const answer = await fetch(`${url}/_weir/admin${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  await answer.body?.cancel();
}
