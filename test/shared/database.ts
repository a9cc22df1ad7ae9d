// A database of the shared PostgreSQL for one test file, behind a port that can be closed. While the port is closed,
// Postgres is down for that file only.
import { connect, createServer, type Socket } from 'node:net';
import { inject } from 'vitest';
import { close, LOOPBACK, listen } from '../../local/ports.ts';
import { createSharedParts, type DatabaseContent } from './parts.ts';

export interface FreshDatabase extends AsyncDisposable {
  readonly url: string;
  stop(): Promise<void>;
}

export async function createFreshDatabase(content: DatabaseContent = 'migrated'): Promise<FreshDatabase> {
  const parts = createSharedParts(inject('sharedParts'));
  const database = await parts.createDatabase(content);
  const door = await openDoor(database);
  return {
    ...door,
    async [Symbol.asyncDispose]() {
      await door.stop();
      await parts.dropDatabase(database);
    },
  };
}

async function openDoor(database: string) {
  const { hostname, port: behind } = new URL(database);
  const sockets = new Set<Socket>();
  const server = createServer({ noDelay: true }, (client) => {
    const postgres = connect({ host: hostname, port: Number(behind), noDelay: true });
    for (const [socket, other] of [
      [client, postgres],
      [postgres, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => other.destroy() && sockets.delete(socket));
      socket.pipe(other);
    }
  });
  const port = await listen(server, 0, 'Postgres of a test');
  let stopping: Promise<void> | undefined;
  const stop = () => {
    const closed = close(server);
    for (const socket of sockets) socket.destroy();
    return closed;
  };
  const url = database.replace(`${hostname}:${behind}`, `${LOOPBACK}:${port}`);
  return { url, stop: () => (stopping ??= stop()) };
}
