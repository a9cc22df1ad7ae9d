// Runs the Worker under `wrangler dev`. Its variables come from a file, so that no secret shows in the process list.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { writeDevConfigs } from './dev-config.ts';
import { assertPortFree, freePort, LOOPBACK, StackError } from './ports.ts';
import { startWatchdog } from './watchdog.ts';

/** A quiet machine takes seconds. */
const START_TIMEOUT_MS = 180_000;
const WRANGLER = fileURLToPath(new URL('../node_modules/wrangler/bin/wrangler.js', import.meta.url));

export interface WorkerOptions {
  readonly port: number;
  readonly dataDir: string;
  readonly variables: Readonly<Record<string, string>>;
  readonly onOutput: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
}

export interface LocalWorker {
  readonly url: string;
  /** Resolves when wrangler ends, for any reason. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

export async function startWorker(options: WorkerOptions): Promise<LocalWorker> {
  const { port, dataDir, variables, onOutput, signal } = options;
  signal?.throwIfAborted();
  const chosenPort = port === 0 ? await freePort() : port;
  await assertPortFree(chosenPort, 'the Worker, PORT');
  await mkdir(dataDir, { recursive: true });
  const envFile = join(dataDir, 'worker.env');
  await writeFile(envFile, toEnvFile(variables), { mode: 0o600 });

  const ports = { port: chosenPort, inspectorPort: await freePort() };
  const child = spawnWrangler({ ...ports, dataDir, envFile, configs: await writeDevConfigs(dataDir) });
  const lastLines = followOutput(child, onOutput);
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  killOnExit(child);
  const stop = () => endGroup(child, ended);
  const url = `http://localhost:${chosenPort}`;
  try {
    await Promise.race([
      untilHealthy(`http://${LOOPBACK}:${chosenPort}`, signal),
      failWhen(ended, lastLines),
    ]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url, ended, stop };
}

interface WranglerOptions {
  readonly port: number;
  readonly inspectorPort: number;
  readonly dataDir: string;
  readonly envFile: string;
  readonly configs: readonly string[];
}

function spawnWrangler({ port, inspectorPort, dataDir, envFile, configs }: WranglerOptions): ChildProcess {
  const flags = {
    ip: LOOPBACK,
    port,
    'inspector-port': inspectorPort,
    'persist-to': join(dataDir, 'worker'),
    'env-file': envFile,
    'log-level': 'warn',
    'show-interactive-dev-session': 'false',
  };
  const args = [
    ...configs.map((config) => `--config=${config}`),
    ...Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
  ];
  return spawn(process.execPath, [WRANGLER, 'dev', ...args], {
    // A process group of its own, so that stopping it also ends workerd and esbuild.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      WRANGLER_SEND_METRICS: 'false',
      // Nothing here needs the network: `request.cf` is a placeholder, X-Weir-Region plays other places.
      CLOUDFLARE_CF_FETCH_ENABLED: 'false',
      // wrangler would store a trace of every request: memory of workerd, and a file that only grows.
      X_LOCAL_OBSERVABILITY: 'false',
      NO_COLOR: '1',
    },
  });
}

/** Single quotes keep JSON unchanged. The values of the stack contain none. */
function toEnvFile(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `${name}='${value}'\n`)
    .join('');
}

function followOutput(child: ChildProcess, onOutput: (line: string) => void): string[] {
  const lastLines: string[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      for (const line of text
        .split('\n')
        .map(plain)
        .filter((candidate) => candidate !== '')) {
        lastLines.push(line);
        if (lastLines.length > 20) lastLines.shift();
        onOutput(line);
      }
    });
  }
  return lastLines;
}

/** wrangler colours and labels the Worker's output. The Worker's own lines are JSON. */
const plain = (line: string) =>
  stripVTControlCharacters(line)
    .trim()
    .replace(/^[▲✘] \[(WARNING|ERROR)\] (?=\{)/, '');

async function untilHealthy(url: string, signal: AbortSignal | undefined): Promise<void> {
  const giveUpAt = Date.now() + START_TIMEOUT_MS;
  while (Date.now() < giveUpAt) {
    signal?.throwIfAborted();
    const answer = await fetch(`${url}/_weir/health`, { signal: AbortSignal.timeout(5_000) }).catch(
      () => undefined,
    );
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new StackError(`the Worker did not answer within ${START_TIMEOUT_MS / 1000} s`);
}

async function failWhen(ended: Promise<void>, lastLines: readonly string[]): Promise<never> {
  await ended;
  throw new StackError(`wrangler dev ended before the Worker answered:\n${lastLines.join('\n')}`);
}

/** The last resort, if this process must end without stopping everything in order. */
function killOnExit(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined) return;
  const kill = () => signalGroup(pid, 'SIGKILL');
  const watchdog = startWatchdog('kill -s KILL -- "-$1"', String(pid));
  process.once('exit', kill);
  child.once('exit', () => {
    process.off('exit', kill);
    watchdog.kill('SIGKILL');
  });
}

async function endGroup(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  signalGroup(child.pid, 'SIGTERM');
  const timer = setTimeout(() => child.pid && signalGroup(child.pid, 'SIGKILL'), 3_000);
  await ended;
  clearTimeout(timer);
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}
