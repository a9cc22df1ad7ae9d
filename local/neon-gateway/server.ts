// Neon's HTTP endpoint (POST /sql) in front of any Postgres URL, for the unmodified driver and drizzle.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { LOOPBACK } from '../ports.ts';
import { createFaultSwitch, type FaultSwitch, type GatewayFaults } from '../upstash-gateway/fault-switch.ts';
import { sendAnswer, sendHalf } from '../upstash-gateway/http-io.ts';
import { createHttpPort } from '../upstash-gateway/http-port.ts';
import { type Answer, fakeAnswer, GatewayError, renderError } from './answer.ts';
import { createSqlPool, execute } from './execute.ts';
import { readSqlRequest, type TransactionOptions } from './request.ts';

const LABEL = 'Neon gateway';
const NEON_MAX_BYTES = 64 * 1024 * 1024;

export interface NeonGatewayOptions {
  /** 0 picks a free port. */
  port: number;
  /** The Postgres behind the gateway: the local one or any other. */
  databaseUrl: string;
  maxRequestBytes?: number;
  maxResponseBytes?: number;
  /** The most connections to Postgres. */
  connections?: number;
  /** The source of chance for `rate` and for a range of `latencyMs`. */
  random?: () => number;
}

export interface NeonGateway {
  url: string;
  port: number;
  /** For `neonConfig.fetchEndpoint`. */
  fetchEndpoint: string;
  faults: Pick<GatewayFaults, 'get' | 'set' | 'clear'>;
  /** How many requests a fault answered instead of Postgres. */
  failedCount(): number;
  /** Does not wait for requests that hang. */
  stop(): Promise<void>;
}

interface Endpoint {
  pool: pg.Pool;
  maxRequestBytes: number;
  maxResponseBytes: number;
  failedCount: number;
}

export async function startNeonGateway(options: NeonGatewayOptions): Promise<NeonGateway> {
  const endpoint: Endpoint = {
    pool: createSqlPool(options.databaseUrl, options.connections ?? 10),
    maxRequestBytes: options.maxRequestBytes ?? NEON_MAX_BYTES,
    maxResponseBytes: options.maxResponseBytes ?? NEON_MAX_BYTES,
    failedCount: 0,
  };
  const httpPort = createHttpPort(options.port, LABEL, (request, response) => {
    void serve(endpoint, faults, request, response);
  });
  const faults = createFaultSwitch({
    openPort: async () => void (await httpPort.open()),
    closePort: httpPort.close,
    flushScripts: async () => {},
    random: options.random ?? Math.random,
  });
  const port = await httpPort.open();
  const url = `http://${LOOPBACK}:${port}`;
  const stop = async () => {
    await faults.settled();
    await httpPort.close();
    await endpoint.pool.end();
  };
  return { url, port, fetchEndpoint: `${url}/sql`, faults, failedCount: () => endpoint.failedCount, stop };
}

async function serve(
  endpoint: Endpoint,
  faults: FaultSwitch,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const hit = faults.draw();
  if (hit.hang) return;
  if (hit.latencyMs > 0) await sleep(hit.latencyMs, undefined, { ref: false });
  const fake = fakeAnswer(hit);
  if (fake) endpoint.failedCount += 1;
  const answer = fake ?? (await answerRequest(endpoint, request, gone.signal).catch(renderError));
  if (gone.signal.aborted) return;
  // An unread body would keep the connection from its next request.
  request.resume();
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  await (hit.resetMidReply ? sendHalf(response, answer) : sendAnswer(response, answer));
}

async function answerRequest(
  endpoint: Endpoint,
  request: IncomingMessage,
  gone: AbortSignal,
): Promise<Answer> {
  if (request.url !== '/sql' || request.method !== 'POST')
    return { status: 400, body: '"query is not supported"' };
  const sql = await readSqlRequest(request, endpoint.maxRequestBytes);
  const results = await execute(endpoint.pool, sql, gone);
  const body = JSON.stringify(sql.isBatch ? { results } : results[0]);
  if (Buffer.byteLength(body) > endpoint.maxResponseBytes)
    throw new GatewayError(507, `response is too large (max is ${endpoint.maxResponseBytes} bytes)`);
  return { status: 200, body, headers: sql.isBatch ? echo(sql.transaction) : {} };
}

/** Neon repeats the transaction's options in its answer. */
function echo({ isolationLevel, readOnly, deferrable }: TransactionOptions): Record<string, string> {
  return {
    ...(isolationLevel !== null && { 'neon-batch-isolation-level': isolationLevel }),
    ...(readOnly && { 'neon-batch-read-only': 'true' }),
    ...(deferrable && { 'neon-batch-deferrable': 'true' }),
  };
}
