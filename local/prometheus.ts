// Runs a real Prometheus for tests. Finds it and its promtool, or installs them.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findOrInstall, type Machine } from './packages.ts';
import { freePort, LOOPBACK, StackError } from './ports.ts';
import { followOutput } from './redis-process.ts';

export interface PrometheusPrograms {
  readonly prometheus: string;
  readonly promtool: string;
}

export function findOrInstallPrometheus(machine: Machine): Promise<PrometheusPrograms> {
  return findOrInstall(machine, {
    name: 'prometheus',
    find(binary) {
      const [prometheus, promtool] = [binary('prometheus'), binary('promtool')];
      return prometheus && promtool ? { prometheus, promtool } : undefined;
    },
    apt: ['prometheus'],
    brew: ['prometheus'],
    hint: 'install Prometheus ("apt-get install prometheus" or "brew install prometheus") and run this again',
  });
}

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [atSeconds: number, text: string];
}

export interface Prometheus extends AsyncDisposable {
  /** Evaluates an expression at a time, or now. */
  query(expression: string, atSeconds?: number): Promise<Series[]>;
}

export interface PrometheusOptions {
  readonly binary: string;
  /** `host:port` of the server to scrape. */
  readonly target: string;
  readonly token: string;
  readonly scrapeEveryMs: number;
}

const START_MS = 60_000;

export async function startPrometheus({ binary, ...scraped }: PrometheusOptions): Promise<Prometheus> {
  await using cleanup = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'weir-prometheus-'));
  cleanup.defer(() => rm(folder, { recursive: true, force: true }));
  const config = join(folder, 'prometheus.yml');
  await writeFile(config, configOf(scraped), { mode: 0o600 });
  const port = await freePort();
  const child = spawn(
    binary,
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=${LOOPBACK}:${port}`,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const lastLine = followOutput(child);
  cleanup.defer(() => end(child));
  const url = `http://${LOOPBACK}:${port}`;
  await untilReady(url, child, lastLine);
  const owned = cleanup.move();
  return {
    query: (expression, atSeconds) => query(url, expression, atSeconds),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const configOf = ({ target, token, scrapeEveryMs }: Omit<PrometheusOptions, 'binary'>) => `
global: { scrape_interval: ${scrapeEveryMs}ms, scrape_timeout: ${scrapeEveryMs}ms }
scrape_configs:
  - job_name: weir
    metrics_path: /_weir/metrics
    authorization: { credentials: ${JSON.stringify(token)} }
    static_configs: [{ targets: [${JSON.stringify(target)}] }]
`;

async function untilReady(url: string, child: ChildProcess, lastLine: () => string): Promise<void> {
  const giveUpAt = Date.now() + START_MS;
  while (Date.now() < giveUpAt && child.exitCode === null) {
    const answer = await fetch(`${url}/-/ready`).catch(() => undefined);
    await answer?.body?.cancel();
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new StackError(`Prometheus did not start: ${lastLine()}`);
}

async function query(url: string, expression: string, atSeconds?: number): Promise<Series[]> {
  const parameters = new URLSearchParams({ query: expression });
  if (atSeconds !== undefined) parameters.set('time', String(atSeconds));
  const answer = await fetch(`${url}/api/v1/query?${parameters}`);
  const body = (await answer.json()) as { status: string; error?: string; data?: { result: Series[] } };
  if (body.status !== 'success') throw new Error(`${body.error}: ${expression}`);
  return body.data?.result ?? [];
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
}
