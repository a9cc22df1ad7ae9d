// The WebSocket side of the demo origin: which requests it accepts, and what it answers.
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { type RawData, type WebSocket, WebSocketServer } from 'ws';
import type { OriginRequest, RequestRecorder } from './request-log.ts';
import { BadSwitch, parseSwitches, type Switches } from './switches.ts';

/** False sends the request down the plain HTTP path, which can refuse it. */
export function acceptsUpgrade(request: IncomingMessage): boolean {
  if (request.headers.upgrade?.toLowerCase() !== 'websocket') return false;
  try {
    const { status, fail, hang, stall } = parseSwitches(request.url ?? '');
    return status === undefined && fail === undefined && !hang && !stall;
  } catch (error) {
    if (error instanceof BadSwitch) return false;
    throw error;
  }
}

export type UpgradeListener = (request: IncomingMessage, socket: Duplex, head: Buffer) => Promise<void>;

export function createUpgradeListener(log: RequestRecorder): UpgradeListener {
  const server = new WebSocketServer({ noServer: true });
  server.on('headers', (lines, request) => {
    for (const [name, value] of parseSwitches(request.url ?? '').headers) lines.push(`${name}: ${value}`);
  });
  return async (request, socket, head) => {
    const switches = parseSwitches(request.url ?? '');
    const entry = log.begin(request, { websocket: true });
    socket.once('close', () => log.end(entry, 'aborted'));
    // Until ws takes the socket over, nothing else listens, and an unhandled error would end the process.
    const ignore = () => {};
    socket.on('error', ignore);
    if (switches.delayMs > 0) await sleep(switches.delayMs, undefined, { ref: false });
    if (socket.destroyed) return;
    server.handleUpgrade(request, socket, head, (webSocket) => {
      socket.off('error', ignore);
      converse(webSocket, { entry, switches, log });
    });
  };
}

interface Conversation {
  entry: OriginRequest;
  switches: Switches;
  log: RequestRecorder;
}

function converse(webSocket: WebSocket, { entry, switches, log }: Conversation): void {
  const { path, headers } = entry;
  webSocket.on('error', () => webSocket.terminate());
  webSocket.on('close', (code) => log.end(entry, code === 1006 ? 'aborted' : 'finished'));
  webSocket.on('message', (data, isBinary) => reply(webSocket, data, isBinary));
  if (switches.greet) webSocket.send(JSON.stringify({ path, protocol: webSocket.protocol, headers }));
}

function reply(webSocket: WebSocket, data: RawData, isBinary: boolean): void {
  const text = isBinary ? '' : data.toString();
  const closeCode = /^close:(\d+)$/.exec(text)?.[1];
  if (closeCode !== undefined) closeWith(webSocket, Number(closeCode));
  else if (text === 'ping') webSocket.send('pong');
  else webSocket.send(data, { binary: isBinary });
}

function closeWith(webSocket: WebSocket, code: number): void {
  try {
    webSocket.close(code, 'asked to');
  } catch {
    // ws throws for codes that no endpoint may send, such as 1006.
    webSocket.send(`close: ${code} is not a code that can be sent`);
  }
}
