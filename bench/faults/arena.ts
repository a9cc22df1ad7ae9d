// What is put to the test: three isolates of the built Worker and the peer beside them in one workerd, three regions
// with a real Redis each, and Weir's rules in force.
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { buildWorker } from '../../local/bundle.ts';
import { type ConnectionPool, openConnectionPool } from '../../local/connection-pool.ts';
import { readCompatibility } from '../../local/isolates.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import { type ServedWorker, serveWorkers, type Workerd, type WorkerModule } from '../gateway/workerd.ts';
import { RULES } from './rules.ts';

export const ISOLATES = ['weir-one', 'weir-two', 'weir-three'] as const;
/** With its own timeout, which is 5 s. */
export const PEERS = ['peer-one', 'peer-two', 'peer-three'] as const;
/** With a timeout as short as Weir's deadline is by default. */
export const IMPATIENT_PEER = 'peer-impatient';
const IMPATIENT_MS = 250;

export const ADMIN_TOKEN = 'an-admin-token-for-benches';

export interface Arena extends AsyncDisposable {
  readonly stack: Stack;
  readonly workerd: Workerd;
  readonly pool: ConnectionPool;
}

export interface Site extends AsyncDisposable {
  /** A workerd process with everybody in it; one at a time. */
  serve(options: { readonly deadlineMs: number }): Promise<Arena>;
}

export async function prepareSite(say: (line: string) => void): Promise<Site> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-faults-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir and the peer');
  const modules = await bundleWeir(folder);
  await bundleOthers(folder);
  const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
  const stack = cleanup.use(await startStack({ ports, say }));
  const owned = cleanup.move();
  return {
    async serve({ deadlineMs }) {
      await using started = new AsyncDisposableStack();
      const workers = [...isolatesOn(stack, modules, deadlineMs), ...othersOn(stack)];
      const compatibility = await readCompatibility();
      const workerd = started.use(await serveWorkers({ folder, compatibility, workers }));
      await admin(workerd, '/import', { weir: 1, rules: RULES });
      await admin(workerd, '/publish', {});
      const pool = started.use(openConnectionPool());
      const used = started.move();
      return { stack, workerd, pool, [Symbol.asyncDispose]: () => used.disposeAsync() };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** An outage is logged by every isolate, and workerd would print it all between the lines of progress. */
const QUIET = `export { default } from './index.js';
for (const level of ['log', 'info', 'warn', 'error']) console[level] = () => {};
`;

async function bundleWeir(folder: string): Promise<WorkerModule[]> {
  await buildWorker(join(folder, 'weir'));
  await writeFile(join(folder, 'weir', 'quiet.js'), QUIET);
  const scripts = (await readdir(join(folder, 'weir'))).filter((name) => name.endsWith('.lua'));
  return [
    { name: 'quiet.js', type: 'esModule', path: 'weir/quiet.js' },
    { name: 'index.js', type: 'esModule', path: 'weir/index.js' },
    ...scripts.map((name) => ({ name, type: 'text' as const, path: `weir/${name}` })),
  ];
}

async function bundleOthers(folder: string): Promise<void> {
  const files = ['./worker-peer.ts', '../gateway/worker-kv.ts'];
  await build({
    entryPoints: files.map((file) => fileURLToPath(new URL(file, import.meta.url))),
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

/** In development, a request names the region that it comes from, and answers tell when they are degraded. */
function isolatesOn(stack: Stack, modules: readonly WorkerModule[], deadlineMs: number): ServedWorker[] {
  const variables = { ...stack.variables, ADMIN_TOKEN, DEADLINE_MS: String(deadlineMs) };
  return ISOLATES.map((name) => ({ name, modules, variables, kv: { RULES: 'kv' } }));
}

function othersOn({ variables: { ORIGIN_URL = '', REGIONS = '' } }: Stack): ServedWorker[] {
  const worker = (name: string, file: string, variables = {}): ServedWorker => ({
    name,
    modules: [{ name: 'index.js', type: 'esModule', path: `worker-${file}.js` }],
    variables,
  });
  const peer = (name: string, TIMEOUT: string) => worker(name, 'peer', { ORIGIN_URL, REGIONS, TIMEOUT });
  return [
    worker('kv', 'kv'),
    ...PEERS.map((name) => peer(name, '')),
    peer(IMPATIENT_PEER, String(IMPATIENT_MS)),
  ];
}

async function admin({ urls }: Workerd, path: string, body: object): Promise<void> {
  const answer = await fetch(`${urls[ISOLATES[0]]}/_weir/admin${path}`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${ADMIN_TOKEN}`, 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
  await answer.body?.cancel();
}
