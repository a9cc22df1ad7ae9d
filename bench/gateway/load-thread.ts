// The load, in a thread of its own: a fixed number of keep-alive connections, each asking again as soon as it has its
// answer.
import { parentPort } from 'node:worker_threads';
import { Client } from 'undici';
import type { LoadReport, LoadRequest } from './load.ts';

/** Values of one octet. Each connection has addresses of its own, the same ones in every slice. */
const ADDRESSES = 250;

const clients = new Map<string, Client[]>();

parentPort?.on('message', (asked: LoadRequest) => {
  run(asked).then(
    (report) => parentPort?.postMessage(report),
    (error: unknown) => parentPort?.postMessage({ failure: String(error) } satisfies LoadReport),
  );
});

async function run(asked: LoadRequest): Promise<LoadReport> {
  const connections = connectionsTo(asked);
  const startedAtMs = performance.now();
  const endAtMs = startedAtMs + asked.ms;
  const all = await Promise.all(connections.map((client, i) => keepAsking(client, i, asked, endAtMs)));
  return {
    latenciesMs: all.flatMap(({ latenciesMs }) => latenciesMs),
    uncounted: all.flatMap(({ uncounted }) => uncounted),
    elapsedMs: performance.now() - startedAtMs,
  };
}

function connectionsTo({ target, concurrency }: LoadRequest): Client[] {
  const known = clients.get(target.origin) ?? Array.from({ length: concurrency }, () => open(target.origin));
  clients.set(target.origin, known);
  return known;
}

const open = (origin: string) => new Client(origin, { pipelining: 1, keepAliveTimeout: 60_000 });

async function keepAsking(client: Client, at: number, { target }: LoadRequest, endAtMs: number) {
  const latenciesMs: number[] = [];
  const uncounted: string[] = [];
  for (let asked = 0, now = performance.now(); now < endAtMs; asked += 1) {
    const ip = `10.${at}.${Math.floor(asked / ADDRESSES) % ADDRESSES}.${asked % ADDRESSES}`;
    const trouble = await ask(client, target, ip).catch(String);
    const answeredAtMs = performance.now();
    if (trouble === undefined) latenciesMs.push(answeredAtMs - now);
    else uncounted.push(trouble);
    now = answeredAtMs;
  }
  return { latenciesMs, uncounted };
}

/** Why it was not counted: such an answer can be a fast one. */
async function ask(client: Client, { path, isWeir }: LoadRequest['target'], ip: string) {
  const answer = await client.request({ path, method: 'GET', headers: { 'CF-Connecting-IP': ip } });
  await answer.body.dump();
  const degraded = answer.headers['x-weir-degraded'];
  if (degraded !== undefined) return String(degraded);
  if (answer.statusCode !== 200) return `status ${answer.statusCode}`;
  const isCounted = !isWeir || answer.headers['x-ratelimit-limit'] !== undefined;
  return isCounted ? undefined : 'no limit in its headers';
}
