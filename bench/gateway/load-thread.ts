// Sends the load from a thread of its own: on a fixed number of keep-alive connections, each of which asks again as
// soon as it has its answer (closed loop); or at a fixed rate, whatever is answered (open loop).
import { parentPort } from 'node:worker_threads';
import { Client, Pool } from 'undici';
import { steadyLoad } from '../../local/steady-load.ts';
import type { LoadReport, LoadRequest, LoadResult, WarmUpRequest } from './load.ts';
import { headersOf } from './ordinary-request.ts';

/** Values of one octet. Each connection has its own addresses, the same in every slice. */
const ADDRESSES = 250;
/** workerd closes a connection that is idle for 5 s. No request may go out on one that is being closed. */
const KEPT_MS = 3_000;
/** Connections that an open loop finds open. */
const OPEN_AT_FIRST = 16;

const clients = new Map<string, Client[]>();
const pools = new Map<string, Pool>();

parentPort?.on('message', (asked: LoadRequest | WarmUpRequest) => {
  start(asked).then(
    (report) => parentPort?.postMessage(report),
    (error: unknown) => parentPort?.postMessage({ failure: String(error) } satisfies LoadReport),
  );
});

function start(asked: LoadRequest | WarmUpRequest): Promise<LoadResult> {
  if ('warmUpRequests' in asked) return warmUp(asked);
  const { pace } = asked;
  return 'connections' in pace ? closedLoop(asked, pace.connections) : openLoop(asked, pace.perSecond);
}

async function warmUp({ target, connections, warmUpRequests }: WarmUpRequest): Promise<LoadResult> {
  const askAll = async (client: Client, at: number) => {
    for (let asked = at; asked < warmUpRequests; asked += connections)
      await ask(client, target, addressOf(at, asked)).catch(() => {});
  };
  await Promise.all(clientsOf(target.origin, connections).map(askAll));
  return { latenciesMs: [], uncounted: [], elapsedMs: 0 };
}

async function closedLoop(asked: LoadRequest, connections: number): Promise<LoadResult> {
  const kept = clientsOf(asked.target.origin, connections);
  const startedAtMs = performance.now();
  const endAtMs = startedAtMs + asked.ms;
  const all = await Promise.all(kept.map((client, i) => keepAsking(client, i, asked, endAtMs)));
  return {
    latenciesMs: all.flatMap(({ latenciesMs }) => latenciesMs),
    uncounted: all.flatMap(({ uncounted }) => uncounted),
    elapsedMs: performance.now() - startedAtMs,
  };
}

async function openLoop({ target, ms }: LoadRequest, perSecond: number): Promise<LoadResult> {
  const pool =
    pools.get(target.origin) ?? new Pool(target.origin, { pipelining: 1, keepAliveTimeout: KEPT_MS });
  pools.set(target.origin, pool);
  const atFirst = Array.from({ length: OPEN_AT_FIRST }, (_, i) => ask(pool, target, addressOf(0, i)));
  await Promise.allSettled(atFirst);
  const startedAtMs = performance.now();
  const results = await steadyLoad({ perSecond, ms, send: (i) => ask(pool, target, addressOf(0, i)) });
  const troubles = results.map(({ value, error }) => (error === undefined ? value : String(error)));
  return {
    latenciesMs: results.filter((_, i) => troubles[i] === undefined).map(({ tookMs }) => tookMs),
    uncounted: troubles.filter((trouble) => trouble !== undefined),
    elapsedMs: performance.now() - startedAtMs,
  };
}

function clientsOf(origin: string, connections: number): Client[] {
  const open = () => new Client(origin, { pipelining: 1, keepAliveTimeout: KEPT_MS });
  const known = clients.get(origin) ?? Array.from({ length: connections }, open);
  clients.set(origin, known);
  return known;
}

const addressOf = (connection: number, asked: number) =>
  `10.${connection}.${Math.floor(asked / ADDRESSES) % ADDRESSES}.${asked % ADDRESSES}`;

async function keepAsking(client: Client, at: number, { target }: LoadRequest, endAtMs: number) {
  const latenciesMs: number[] = [];
  const uncounted: string[] = [];
  for (let asked = 0, now = performance.now(); now < endAtMs; asked += 1) {
    const trouble = await ask(client, target, addressOf(at, asked)).catch(String);
    const answeredAtMs = performance.now();
    if (trouble === undefined) latenciesMs.push(answeredAtMs - now);
    else uncounted.push(trouble);
    now = answeredAtMs;
  }
  return { latenciesMs, uncounted };
}

/** Returns why the request was not counted: such an answer can be a fast one. */
async function ask(connection: Client | Pool, { path, isWeir }: LoadRequest['target'], ip: string) {
  const answer = await connection.request({ path, method: 'GET', headers: headersOf(ip) });
  await answer.body.dump();
  const degraded = answer.headers['x-weir-degraded'];
  if (degraded !== undefined) return String(degraded);
  if (answer.statusCode !== 200) return `status ${answer.statusCode}`;
  const isCounted = !isWeir || answer.headers['x-ratelimit-limit'] !== undefined;
  return isCounted ? undefined : 'no limit in its headers';
}
