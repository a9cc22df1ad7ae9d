// Echoes a request. It reads and hashes the body as a stream, and keeps it only while it is small.
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { OriginRequest } from './request-log.ts';
import type { HeaderPair } from './switches.ts';

export const MAX_ECHO_BYTES = 64 * 1024;

export interface BodyEcho {
  /** null when the body is larger than MAX_ECHO_BYTES. */
  body: string | null;
  bodyEncoding: 'utf-8' | 'base64' | null;
  bodyBytes: number;
  bodySha256: string;
}

export interface Echo extends BodyEcho {
  method: string;
  path: string;
  headers: HeaderPair[];
}

export async function readEcho(request: IncomingMessage, entry: OriginRequest): Promise<Echo> {
  const body = await readBody(request, entry);
  return { method: entry.method, path: entry.path, headers: entry.headers, ...body };
}

async function readBody(request: IncomingMessage, entry: OriginRequest): Promise<BodyEcho> {
  const hash = createHash('sha256');
  let kept: Uint8Array[] = [];
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    hash.update(chunk);
    entry.bodyBytes += chunk.length;
    if (entry.bodyBytes <= MAX_ECHO_BYTES) kept.push(chunk);
    else kept = [];
  }
  const text = entry.bodyBytes <= MAX_ECHO_BYTES ? encode(kept) : { body: null, bodyEncoding: null };
  return { ...text, bodyBytes: entry.bodyBytes, bodySha256: hash.digest('hex') };
}

function encode(chunks: Uint8Array[]): Pick<BodyEcho, 'body' | 'bodyEncoding'> {
  const body = Buffer.concat(chunks);
  const bodyEncoding = isUtf8(body) ? 'utf-8' : 'base64';
  return { body: body.toString(bodyEncoding), bodyEncoding };
}
