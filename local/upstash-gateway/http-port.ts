// An HTTP server on loopback whose port can be closed and opened again while it runs.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { close, listen } from '../ports.ts';

export type Serve = (request: IncomingMessage, response: ServerResponse) => void;

export interface HttpPort {
  /** Opens the given port, or the same one again after closing. Resolves to its number. */
  open(): Promise<number>;
  /** Drops every connection, answered or not. */
  close(): Promise<void>;
}

export function createHttpPort(wantedPort: number, label: string, serve: Serve): HttpPort {
  const server = createServer(serve);
  // Longer than clients keep an idle connection. So the client closes first, and no request meets a closing socket.
  server.keepAliveTimeout = 120_000;
  let port = wantedPort;
  return {
    open: async () => {
      if (server.listening) return port;
      port = await listen(server, port, label);
      server.removeAllListeners('error');
      return port;
    },
    close: async () => {
      if (!server.listening) return;
      const closed = close(server);
      server.closeAllConnections();
      await closed;
    },
  };
}
