// Sends requests over kept connections. It opens another connection only when all others wait for an answer.
import { once } from 'node:events';
import { Agent, type IncomingHttpHeaders, type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

export interface PoolRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

export interface PoolAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

export interface ConnectionPool extends Disposable {
  /** Resolves when the whole answer was read. Rejects when the network fails. */
  request(url: string, request?: PoolRequest): Promise<PoolAnswer>;
}

const IDLE_MS = 3_000;

export function openConnectionPool(): ConnectionPool {
  const agent = new Agent({
    keepAlive: true,
    maxFreeSockets: Number.POSITIVE_INFINITY,
    // workerd closes a connection that is idle for 5 s. The pool must not send a request on one that is being closed.
    timeout: IDLE_MS,
  });
  return {
    async request(url, { body, ...options } = {}) {
      const asked = request(url, { ...options, agent });
      // If the connection fails after the answer began, the answer reports it.
      asked.on('error', () => {});
      asked.end(body);
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) };
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}
