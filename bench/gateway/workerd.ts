// `workerd serve` with several Workers in one process, each at a port of its own.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { LOOPBACK } from '../../local/ports.ts';
import { startWatchdog } from '../../local/watchdog.ts';
import { CF_HEADER } from './ordinary-request.ts';

export interface ServedWorker {
  readonly name: string;
  readonly modules: readonly WorkerModule[];
  readonly variables: Readonly<Record<string, string>>;
  /** By binding: the name of the Worker that stores the values. */
  readonly kv?: Readonly<Record<string, string>>;
}

export interface WorkerModule {
  readonly name: string;
  readonly type: 'esModule';
  /** Relative to the folder of the configuration. */
  readonly path: string;
}

/** The same values as in wrangler.toml. */
export interface Compatibility {
  readonly compatibilityDate: string;
  readonly compatibilityFlags: readonly string[];
}

export interface ServeOptions {
  /** Holds the modules and the written configuration. */
  readonly folder: string;
  readonly compatibility: Compatibility;
  readonly workers: readonly ServedWorker[];
  /** Workers of other processes that a binding may name, with the URL of each. */
  readonly elsewhere?: Readonly<Record<string, string>>;
  /** A program that runs workerd, and its arguments. */
  readonly under?: readonly string[];
  /** With the inspector, which costs time. */
  readonly inspect?: boolean;
  /** The most heap for each Worker. By default workerd has no limit. */
  readonly mostHeapMb?: number | undefined;
}

export interface Workerd extends AsyncDisposable {
  readonly pid: number;
  /** By the name of the Worker. */
  readonly urls: Readonly<Record<string, string>>;
  /** Where inspectors connect, by the name of the Worker. */
  readonly inspectors: Readonly<Record<string, string>>;
}

// The package has no types. This is the path of the program.
const { default: binary } = createRequire(import.meta.url)('workerd') as { default: string };
const START_MS = 120_000;

export async function serveWorkers(options: ServeOptions): Promise<Workerd> {
  const { folder, workers, under = [], inspect = false } = options;
  const config = join(folder, `config-${randomUUID()}.capnp`);
  await writeFile(config, renderConfig(options));
  const args = ['serve', config, '--control-fd=3', ...(inspect ? [`--inspector-addr=${LOOPBACK}:0`] : [])];
  const [program = binary, ...before] = [...under, binary];
  const child = spawn(program, [...before, ...args], { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  await using cleanup = new AsyncDisposableStack();
  const watchdog = startWatchdog('kill -s KILL "$1"', String(child.pid));
  cleanup.defer(async () => {
    await end(child);
    watchdog.kill('SIGKILL');
  });

  const ports = await listeningPorts(child, workers.length + (inspect ? 1 : 0));
  const urls = workers.map(({ name }) => [name, `http://${LOOPBACK}:${ports.get(name)}`]);
  const inspectors = workers.map(({ name }) => [name, `ws://${LOOPBACK}:${ports.get(INSPECTOR)}/${name}`]);
  const owned = cleanup.move();
  return {
    pid: child.pid ?? 0,
    urls: Object.fromEntries(urls),
    inspectors: inspect ? Object.fromEntries(inspectors) : {},
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const INSPECTOR = 'inspector';

/** workerd reports its ports on a control channel, one line of JSON for each. */
async function listeningPorts(child: ChildProcess, count: number): Promise<Map<string, number>> {
  const ports = new Map<string, number>();
  const control = child.stdio[3] as Readable;
  const tooLate = setTimeout(() => child.kill('SIGKILL'), START_MS);
  for await (const line of createInterface({ input: control })) {
    const told = JSON.parse(line) as { event: string; socket?: string; port: number };
    ports.set(told.socket ?? INSPECTOR, told.port);
    if (ports.size === count) break;
  }
  clearTimeout(tooLate);
  if (ports.size < count) throw new Error('workerd did not start');
  return ports;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}

function renderConfig({ workers, elsewhere = {}, compatibility, mostHeapMb }: ServeOptions): string {
  const services = [
    ...workers.map(
      (worker) => `    (name = ${text(worker.name)}, worker = ${renderWorker(worker, compatibility)}),`,
    ),
    ...Object.entries(elsewhere).map(
      ([name, url]) =>
        `    (name = ${text(name)}, external = (address = ${text(new URL(url).host)}, http = ())),`,
    ),
  ];
  const sockets = workers.map(
    ({ name }) =>
      `    (name = ${text(name)}, address = "${LOOPBACK}:0", http = (cfBlobHeader = ${text(CF_HEADER)}), service = ${text(name)}),`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "internet", network = (allow = ["public", "private"])),
${services.join('\n')}
  ],
  sockets = [
${sockets.join('\n')}
  ],
  v8Flags = [${mostHeapMb === undefined ? '' : text(`--max-heap-size=${mostHeapMb}`)}],
);
`;
}

function renderWorker({ modules, variables, kv = {} }: ServedWorker, compatibility: Compatibility): string {
  const { compatibilityDate, compatibilityFlags } = compatibility;
  const embedded = modules.map(
    ({ name, type, path }) => `(name = ${text(name)}, ${type} = embed ${text(path)})`,
  );
  const bindings = [
    ...Object.entries(variables).map(([name, value]) => `(name = ${text(name)}, text = ${text(value)})`),
    ...Object.entries(kv).map(([name, service]) => `(name = ${text(name)}, kvNamespace = ${text(service)})`),
  ];
  return `(
      compatibilityDate = ${text(compatibilityDate)},
      compatibilityFlags = [${compatibilityFlags.map(text).join(', ')}],
      modules = [${embedded.join(', ')}],
      bindings = [${bindings.join(', ')}],
    )`;
}

/** Cap'n Proto writes strings as JSON does. */
const text = (value: string) => JSON.stringify(value);
