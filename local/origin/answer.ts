// Answers one HTTP request of the demo origin as its switches ask.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { constants, createGzip } from 'node:zlib';
import { type Content, createContent, fixedContent } from './content.ts';
import { readEcho } from './echo.ts';
import type { OriginRequest } from './request-log.ts';
import { BadSwitch, type HeaderPair, parseSwitches, rawPath, type Switches } from './switches.ts';

const ALLOW: HeaderPair = ['Allow', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'];
const EARLY_LINK = '</style.css>; rel=preload; as=style';

interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  entry: OriginRequest;
}

export async function answer(exchange: Exchange): Promise<void> {
  const { response } = exchange;
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  try {
    await follow(parseSwitches(exchange.entry.path), exchange, gone.signal);
  } catch (error) {
    if (error instanceof BadSwitch) return refuse(response, error);
    // A client that left is not a failure. Everything that waited for it rejects on its way out.
    if (response.destroyed || gone.signal.aborted) return;
    console.error('origin:', error);
    response.destroy();
  }
}

function refuse(response: ServerResponse, { switchName, reason }: BadSwitch): void {
  const body = JSON.stringify({ error: 'bad_switch', switch: switchName, reason });
  response.writeHead(400, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

async function follow(switches: Switches, exchange: Exchange, signal: AbortSignal): Promise<void> {
  const { request, response, entry } = exchange;
  if (switches.early) response.writeEarlyHints({ link: EARLY_LINK });
  if (switches.fail === 'reset') {
    await wait(switches.delayMs, signal);
    request.socket.resetAndDestroy();
    return;
  }
  if (switches.stall) return;
  const echo = await readEcho(request, entry);
  await wait(switches.delayMs, signal);
  if (switches.hang) return;
  await send({ exchange, switches, content: createContent(echo, switches), signal });
}

async function wait(delayMs: number, signal: AbortSignal): Promise<void> {
  if (delayMs > 0) await sleep(delayMs, undefined, { signal });
}

interface Sending {
  exchange: Exchange;
  switches: Switches;
  content: Content;
  signal: AbortSignal;
}

async function send({ exchange, switches, content, signal }: Sending): Promise<void> {
  const { request, response, entry } = exchange;
  const status = switches.status ?? (rawPath(entry.path) === '/missing' ? 404 : 200);
  const body = status === 205 ? fixedContent(content.type, '') : content;
  const defaults = defaultHeaders(body, { status, gzip: switches.gzip });
  if (request.method === 'OPTIONS') defaults.push(ALLOW);
  response.writeHead(status, mergeHeaders(defaults, switches.headers).flat());
  // Node would drop such a body too, but only after making all of it.
  if (request.method === 'HEAD' || status === 204 || status === 304) response.end();
  else await sendBody({ exchange, switches, content: body, signal });
}

function defaultHeaders(content: Content, { status, gzip }: { status: number; gzip: boolean }): HeaderPair[] {
  if (status === 204) return [];
  const headers: HeaderPair[] = [['Content-Type', content.type], ...(content.headers ?? [])];
  if (gzip) headers.push(['Content-Encoding', 'gzip']);
  else if (content.lengthBytes !== undefined) headers.push(['Content-Length', String(content.lengthBytes)]);
  return headers;
}

/** A requested header replaces the origin's own of that name. One requested twice is sent twice. */
function mergeHeaders(defaults: HeaderPair[], asked: HeaderPair[]): HeaderPair[] {
  const names = new Set(asked.map(([name]) => name.toLowerCase()));
  return [...defaults.filter(([name]) => !names.has(name.toLowerCase())), ...asked];
}

async function sendBody({ exchange, switches, content, signal }: Sending): Promise<void> {
  const { response, entry } = exchange;
  const half = switches.fail === 'half';
  const source = Readable.from(counted(content.chunks(half ? 0.5 : 1, signal), entry), { highWaterMark: 1 });
  // Flushes after each chunk. Otherwise gzip would hold back the lines of a slow stream.
  const encoded = switches.gzip ? [createGzip({ flush: constants.Z_SYNC_FLUSH })] : [];
  if (half) response.flushHeaders();
  await pipeline([source, ...encoded, response], { end: !half });
  if (half) response.socket?.destroySoon();
}

async function* counted(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  entry: OriginRequest,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    entry.sentBytes += chunk.length;
    yield chunk;
  }
}
