// The demo origin for one test file, and the shortest way to talk to it.
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, beforeAll, beforeEach, vi } from 'vitest';
import { type Origin, startOrigin } from '../../local/origin.ts';

export const MEGABYTE = 1024 * 1024;
export const NEVER_MS = 3_600_000;

export interface CallOptions {
  method?: string;
  headers?: string[];
  body?: string | Uint8Array | Readable;
}

/** Starts an origin before the tests of the calling file, empties its log before each test, and stops it after them. */
export function useOrigin() {
  let origin: Origin;
  beforeAll(async () => {
    origin = await startOrigin({ port: 0 });
  });
  afterAll(() => origin.stop());
  beforeEach(() => origin.requests.clear());

  const send = (path: string, options?: CallOptions) => sendTo(origin.port, path, options);
  const open = (path: string, options?: CallOptions) => answerOf(send(path, options));
  const call = async (path: string, options?: CallOptions) => readAll(await open(path, options));
  const latest = () => origin.requests.entries.at(-1);
  const latestState = () => latest()?.state;
  return { current: () => origin, send, open, call, latest, latestState };
}

function sendTo(
  port: number,
  path: string,
  { method = 'GET', headers = [], body }: CallOptions = {},
): ClientRequest {
  const host = ['Host', `127.0.0.1:${port}`];
  const call = request({ port, host: '127.0.0.1', path, method, headers: [...host, ...headers] });
  if (body instanceof Readable) pipeline(body, call).catch(() => {});
  else call.end(body);
  return call;
}

async function answerOf(sent: ClientRequest): Promise<IncomingMessage> {
  const [response] = await once(sent, 'response');
  return response;
}

async function readAll(response: IncomingMessage) {
  const bytes = await buffer(response);
  const { statusCode: status, headers, rawHeaders } = response;
  return {
    status,
    headers,
    rawHeaders,
    bytes,
    text: bytes.toString(),
    json: () => JSON.parse(bytes.toString()),
  };
}

export function sha256(chunks: Iterable<Uint8Array | string>): string {
  const hash = createHash('sha256');
  for (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

/** The memory in use after a full collection. The second collection waits for the sweep that the first one began. */
export function retainedBytes(): number {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc');
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

export const eventually = (check: () => void) => vi.waitFor(check, { timeout: 30_000, interval: 20 });
