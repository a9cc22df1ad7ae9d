// Finds free ports for the local stack. If a port is taken, one line says which, and what to set instead.
import { createServer, type Server } from 'node:net';

export const LOOPBACK = '127.0.0.1';

/** An error whose message is meant for the person at the terminal: printed as one line, without a stack. */
export class StackError extends Error {}

/** Starts `server` on loopback and resolves to its port. Port 0 asks for any free one. */
export function listen(server: Server, port: number, label: string): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(explainListenError(error, port, label)));
    server.listen(port, LOOPBACK, () => {
      const address = server.address();
      if (address === null || typeof address === 'string') reject(new Error(`${label}: no TCP address`));
      else resolve(address.port);
    });
  });
}

function explainListenError(error: NodeJS.ErrnoException, port: number, label: string): Error {
  if (error.code === 'EADDRINUSE') return new StackError(`port ${port} (${label}) is taken`);
  if (error.code === 'EACCES')
    return new StackError(`port ${port} (${label}) needs privileges; pick one above 1023`);
  return error;
}

export function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** Fails like `listen` if the port is taken, for a port that another program will open. */
export async function assertPortFree(port: number, label: string): Promise<void> {
  const probe = createServer();
  await listen(probe, port, label);
  await close(probe);
}

/**
 * Below the ports that systems hand out by themselves, so no program gets such a port by chance just before it is used.
 */
const [LOWEST_PORT, HIGHEST_PORT] = [20_000, 32_000];
const MAX_TRIES = 100;

/** A port that nobody listens on now. Two callers get the same one only by chance. */
export async function freePort(): Promise<number> {
  for (let tries = 1; ; tries += 1) {
    const port = LOWEST_PORT + Math.floor(Math.random() * (HIGHEST_PORT - LOWEST_PORT));
    const probe = createServer();
    try {
      await listen(probe, port, 'any free port');
      await close(probe);
      return port;
    } catch (error) {
      if (tries === MAX_TRIES) throw error;
    }
  }
}
