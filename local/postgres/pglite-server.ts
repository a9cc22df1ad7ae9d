// A TCP port through which several Postgres clients can use PGlite at once. pglite-socket does not work here: it lets
// clients share prepared statements, and mixes their batches when one arrives in several packets.
import { Buffer } from 'node:buffer';
import { createServer, type Server, type Socket } from 'node:net';
import type { PGlite } from '@electric-sql/pglite';
import { close, listen } from '../ports.ts';
import { CANCEL_REQUEST, errorResponse, GSS_REQUEST, SSL_REQUEST, welcome } from './pg-messages.ts';
import { type Engine, serveSession } from './pglite-session.ts';
import { createTurns } from './turns.ts';

const PROTOCOL_3 = 3;
const MAX_HELLO_BYTES = 10_000;
const REPORTED_SETTINGS = [
  'server_version',
  'server_encoding',
  'client_encoding',
  'application_name',
  'is_superuser',
  'session_authorization',
  'DateStyle',
  'IntervalStyle',
  'TimeZone',
  'integer_datetimes',
  'standard_conforming_strings',
];

export interface PgliteServer {
  port: number;
  stop(): Promise<void>;
}

interface PgliteServerOptions {
  db: PGlite;
  port: number;
  label: string;
  idleInTransactionMs: number;
}

export async function startPgliteServer(options: PgliteServerOptions): Promise<PgliteServer> {
  const settings = await readSettings(options.db);
  const sockets = new Set<Socket>();
  const crash: { reason: string | null } = { reason: null };
  const engine = createEngine(options, (reason) => {
    crash.reason = reason;
    for (const socket of sockets) socket.end(stoppedError(reason));
  });
  let lastClientId = 0;

  const server: Server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    readHello(socket, (head) => {
      if (crash.reason !== null) return void socket.end(stoppedError(crash.reason));
      lastClientId += 1;
      socket.write(welcome(settings, lastClientId));
      serveSession(socket, lastClientId, engine, head);
    });
  });
  const port = await listen(server, options.port, options.label);

  return {
    port,
    async stop() {
      const closed = close(server);
      for (const socket of sockets) socket.destroy();
      await closed;
      // Sessions that were cut off roll back first. The last turn comes after theirs.
      await nextTick();
      (await engine.turns.take())();
    },
  };
}

function createEngine(options: PgliteServerOptions, onCrash: (reason: string) => void): Engine {
  const { db } = options;
  return {
    async run(messages, onReply = () => {}) {
      try {
        // Copies both ways, because the engine keeps views into its own memory.
        await db.execProtocolRawStream(new Uint8Array(messages), {
          onRawData: (chunk) => onReply(Buffer.from(chunk)),
        });
      } catch (error) {
        onCrash(error instanceof Error ? error.message : String(error));
        throw error;
      }
    },
    inTransaction: () => db.isInTransaction(),
    turns: createTurns(),
    unnamed: { owner: null },
    idleInTransactionMs: options.idleInTransactionMs,
  };
}

/** Reads everything before the first typed message. It accepts any user, password and database name. */
function readHello(socket: Socket, onReady: (head: Buffer) => void): void {
  let bytes = Buffer.alloc(0);
  const onData = (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 8) {
      const length = bytes.readInt32BE(0);
      const code = bytes.readInt32BE(4);
      if (length < 8 || length > MAX_HELLO_BYTES || code === CANCEL_REQUEST) return void socket.destroy();
      if (bytes.length < length) return;
      bytes = bytes.subarray(length);
      if (code === SSL_REQUEST || code === GSS_REQUEST) {
        socket.write('N');
        continue;
      }
      socket.off('data', onData);
      if (code >> 16 === PROTOCOL_3) onReady(bytes);
      else socket.end(errorResponse('FATAL', '0A000', 'unsupported frontend protocol'));
      return;
    }
  };
  socket.on('data', onData);
}

async function readSettings(db: PGlite): Promise<Map<string, string>> {
  const { rows } = await db.query<{ name: string; setting: string }>(
    'select name, setting from pg_settings where name = any($1)',
    [REPORTED_SETTINGS],
  );
  return new Map(rows.map(({ name, setting }) => [name, setting]));
}

function stoppedError(reason: string): Buffer {
  return errorResponse('FATAL', '57P02', `the local Postgres has stopped: ${reason}`);
}

function nextTick(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
