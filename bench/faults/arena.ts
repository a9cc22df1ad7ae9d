// Runs what is tested: three isolates of the built Worker and the peer beside them in one workerd, three regions with a
// real Redis each, and Weir's rules in force.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ConnectionPool, openConnectionPool } from '../../local/connection-pool.ts';
import { readCompatibility } from '../../local/isolates.ts';
import { type Stack, startStack } from '../../local/stack.ts';
import { ADMIN_TOKEN, ANY_PORTS, bundleWeir, bundleWorkers, putRulesInForce } from '../gateway/arena.ts';
import { type ServedWorker, serveWorkers, type Workerd, type WorkerModule } from '../gateway/workerd.ts';
import type { BenchOptions } from '../shared/bench.ts';
import { RULES } from './rules.ts';

export const ISOLATES = ['weir-one', 'weir-two', 'weir-three'] as const;
/** With its default timeout of 5 s. */
export const PEERS = ['peer-one', 'peer-two', 'peer-three'] as const;
/** With a timeout as short as Weir's default deadline. */
export const IMPATIENT_PEER = 'peer-impatient';
const IMPATIENT_MS = 250;

export interface Arena extends AsyncDisposable {
  readonly stack: Stack;
  readonly workerd: Workerd;
  readonly pool: ConnectionPool;
}

export interface Site extends AsyncDisposable {
  /** A workerd process with all candidates. Only one runs at a time. */
  serve(options: { readonly deadlineMs: number }): Promise<Arena>;
}

export async function prepareSite({ say, parts }: BenchOptions): Promise<Site> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-faults-bench-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  say('building Weir and the peer');
  const modules = await bundleQuietWeir(folder, parts.bundle);
  await bundleWorkers(folder, OTHERS);
  const stack = cleanup.use(await startStack({ ports: ANY_PORTS, databaseUrl: parts.databaseUrl, say }));
  const owned = cleanup.move();
  return {
    async serve({ deadlineMs }) {
      await using started = new AsyncDisposableStack();
      const workers = [...isolatesOn(stack, modules, deadlineMs), ...othersOn(stack)];
      const compatibility = await readCompatibility();
      const workerd = started.use(await serveWorkers({ folder, compatibility, workers }));
      await putRulesInForce(workerd.urls[ISOLATES[0]] ?? '', RULES);
      const pool = started.use(openConnectionPool());
      const used = started.move();
      return { stack, workerd, pool, [Symbol.asyncDispose]: () => used.disposeAsync() };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** Every isolate logs an outage, and workerd would print that between the lines of progress. */
const QUIET = `export { default } from './index.js';
for (const level of ['log', 'info', 'warn', 'error']) console[level] = () => {};
`;

async function bundleQuietWeir(folder: string, bundle: string | undefined): Promise<WorkerModule[]> {
  const modules = await bundleWeir(folder, bundle);
  await writeFile(join(folder, 'weir', 'quiet.js'), QUIET);
  return [{ name: 'quiet.js', type: 'esModule', path: 'weir/quiet.js' }, ...modules];
}

const OTHERS = ['./worker-peer.ts', '../gateway/worker-kv.ts'].map((file) => new URL(file, import.meta.url));

/** In development, a request names its region, and answers say when they are degraded. */
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
