// The demo origin: the API behind Weir in local development and in tests. `node local/origin.ts` runs it alone, on PORT
// or 8788. GET /_origin lists what it can do.
import { createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import { answer } from './origin/answer.ts';
import { createRequestLog, type RequestLog, type RequestRecorder } from './origin/request-log.ts';
import { acceptsUpgrade, createUpgradeListener } from './origin/web-socket.ts';
import { close, LOOPBACK, listen, StackError } from './ports.ts';

export type { BodyEcho, Echo } from './origin/echo.ts';
export type { OriginRequest, RequestLog } from './origin/request-log.ts';

export interface Origin {
  url: string;
  port: number;
  requests: RequestLog;
  /** Cuts every connection, including those that hang or stream. */
  stop(): Promise<void>;
}

export async function startOrigin({ port = 0 }: { port?: number } = {}): Promise<Origin> {
  const log = createRequestLog();
  const server = createOriginServer(log);
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const boundPort = await listen(server, port, 'origin');
  const stop = async () => {
    const closed = close(server);
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return { url: `http://${LOOPBACK}:${boundPort}`, port: boundPort, requests: log, stop };
}

function createOriginServer(log: RequestRecorder): Server {
  const server = createServer({
    // Uploads may take any time, and an idle connection outlives the pause between two tests.
    requestTimeout: 0,
    keepAliveTimeout: 60_000,
    maxHeaderSize: 64 * 1024,
    shouldUpgradeCallback: acceptsUpgrade,
  });
  server.on('request', (request, response) => {
    const entry = log.begin(request, { websocket: false });
    response.once('close', () => log.end(entry, response.writableFinished ? 'finished' : 'aborted'));
    void answer({ request, response, entry });
  });
  server.on('upgrade', createUpgradeListener(log));
  return server;
}

function parsePort(text: string | undefined): number {
  const port = Number(text ?? 8788);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new StackError(`PORT is not a port: ${text}`);
  return port;
}

async function main(): Promise<void> {
  const origin = await startOrigin({ port: parsePort(process.env['PORT']) });
  console.log(`origin: ${origin.url} (help at ${origin.url}/_origin)`);
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void origin.stop());
}

if (import.meta.main) {
  await main().catch((error: unknown) => {
    console.error(error instanceof StackError ? error.message : error);
    process.exitCode = 1;
  });
}
