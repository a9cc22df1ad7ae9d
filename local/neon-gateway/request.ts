// Reads a request of Neon's HTTP API: its headers, its body, and its statements.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { GatewayError } from './answer.ts';
import { toPgText } from './parameters.ts';

export interface Statement {
  text: string;
  parameters: (string | null)[];
  arrayMode: boolean;
}

export interface SqlRequest {
  statements: Statement[];
  /** A batch is one transaction. Its answer is a list, even for one statement. */
  isBatch: boolean;
  rawText: boolean;
  transaction: TransactionOptions;
}

export interface TransactionOptions {
  isolationLevel: IsolationLevel | null;
  readOnly: boolean;
  deferrable: boolean;
}

export type IsolationLevel = keyof typeof ISOLATION_LEVELS;

export const ISOLATION_LEVELS = {
  ReadUncommitted: 'READ UNCOMMITTED',
  ReadCommitted: 'READ COMMITTED',
  RepeatableRead: 'REPEATABLE READ',
  Serializable: 'SERIALIZABLE',
} as const;

export async function readSqlRequest(request: IncomingMessage, maxBytes: number): Promise<SqlRequest> {
  const { headers } = request;
  checkConnectionString(headers);
  const transaction = readTransactionOptions(headers);
  const payload = parsePayload(await readBody(request, maxBytes));
  const arrayMode = headers['neon-array-mode'] === 'true';
  return {
    statements: payload.queries.map((query) => readStatement(query, arrayMode)),
    isBatch: payload.isBatch,
    rawText: headers['neon-raw-text-output'] === 'true',
    transaction,
  };
}

/**
 * The string need not point here, but a string that Neon would refuse must not work locally. The exception is one
 * without a password, which is common for a Postgres on one's own machine.
 */
function checkConnectionString(headers: IncomingHttpHeaders): void {
  const header = headers['neon-connection-string'];
  if (typeof header !== 'string') throw new GatewayError(400, 'invalid header: neon-connection-string');
  if (!URL.canParse(header))
    throw new GatewayError(400, 'invalid connection string: relative URL without a base');
  const url = new URL(header);
  const database = url.pathname.split('/')[1] ?? '';
  if (!/^postgres(ql)?:$/.test(url.protocol)) throw new GatewayError(400, 'incorrect scheme');
  if (database === '') throw new GatewayError(400, 'invalid database name');
  if (url.username === '') throw new GatewayError(400, 'missing username');
  if (url.hostname === '') throw new GatewayError(400, 'missing hostname');
}

function readTransactionOptions(headers: IncomingHttpHeaders): TransactionOptions {
  const level = headers['neon-batch-isolation-level'];
  if (level !== undefined && !(typeof level === 'string' && Object.hasOwn(ISOLATION_LEVELS, level)))
    throw new GatewayError(400, 'invalid isolation level');
  return {
    isolationLevel: (level as IsolationLevel | undefined) ?? null,
    readOnly: headers['neon-batch-read-only'] === 'true',
    deferrable: headers['neon-batch-deferrable'] === 'true',
  };
}

async function readBody(request: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Reads and drops the rest. Otherwise the client would see a reset instead of the answer.
    if (size <= maxBytes) chunks.push(chunk);
  }
  if (size > maxBytes) throw new GatewayError(413, `request is too large (max is ${maxBytes} bytes)`);
  return Buffer.concat(chunks).toString();
}

function parsePayload(body: string): { queries: unknown[]; isBatch: boolean } {
  const payload = parseJson(body);
  if (!isRecord(payload)) throw badPayload();
  if (typeof payload['query'] === 'string') return { queries: [payload], isBatch: false };
  if (Array.isArray(payload['queries'])) return { queries: payload['queries'], isBatch: true };
  throw badPayload();
}

function readStatement(query: unknown, defaultArrayMode: boolean): Statement {
  if (!isRecord(query) || typeof query['query'] !== 'string') throw badPayload();
  const { params = [], arrayMode } = query;
  if (!Array.isArray(params)) throw badPayload();
  return {
    text: query['query'],
    parameters: params.map(toPgText),
    arrayMode: typeof arrayMode === 'boolean' ? arrayMode : defaultArrayMode,
  };
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new GatewayError(400, `could not parse the HTTP request body: ${(error as Error).message}`);
  }
}

function badPayload(): GatewayError {
  const reason = 'data did not match any variant of untagged enum Payload';
  return new GatewayError(400, `could not parse the HTTP request body: ${reason}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
