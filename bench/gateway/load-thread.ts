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
  const latencies = await Promise.all(connections.map((client, i) => keepAsking(client, i, asked, endAtMs)));
  return { latenciesMs: latencies.flat(), elapsedMs: performance.now() - startedAtMs };
}

function connectionsTo({ target, concurrency }: LoadRequest): Client[] {
  const known = clients.get(target.origin) ?? Array.from({ length: concurrency }, () => open(target.origin));
  clients.set(target.origin, known);
  return known;
}

const open = (origin: string) => new Client(origin, { pipelining: 1, keepAliveTimeout: 60_000 });

async function keepAsking(client: Client, at: number, { target }: LoadRequest, endAtMs: number) {
  const latenciesMs: number[] = [];
  for (let asked = 0, now = performance.now(); now < endAtMs; asked += 1) {
    const ip = `10.${at}.${Math.floor(asked / ADDRESSES) % ADDRESSES}.${asked % ADDRESSES}`;
    await ask(client, target, ip);
    const answeredAtMs = performance.now();
    latenciesMs.push(answeredAtMs - now);
    now = answeredAtMs;
  }
  return latenciesMs;
}

async function ask(client: Client, { path, isWeir }: LoadRequest['target'], ip: string): Promise<void> {
  const answer = await client.request({ path, method: 'GET', headers: { 'CF-Connecting-IP': ip } });
  await answer.body.dump();
  if (answer.statusCode !== 200) throw new Error(`${path} was answered ${answer.statusCode}`);
  if (!isWeir) return;
  // An answer that was not counted would be a fast one.
  if (answer.headers['x-ratelimit-limit'] === undefined) throw new Error(`${path} was not counted`);
  const degraded = answer.headers['x-weir-degraded'];
  if (degraded !== undefined) throw new Error(`${path} was answered without counting: ${degraded}`);
}
