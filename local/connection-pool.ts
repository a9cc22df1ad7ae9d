// Requests of a load over connections that are kept: one more is opened only when all others wait for an answer.
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
  /** Resolves when the answer was read to its end; rejects when the network fails. */
  request(url: string, request?: PoolRequest): Promise<PoolAnswer>;
}

const IDLE_MS = 3_000;

export function openConnectionPool(): ConnectionPool {
  const agent = new Agent({
    keepAlive: true,
    maxFreeSockets: Number.POSITIVE_INFINITY,
    // workerd closes what is idle for 5 s: a request must not go out on a connection that is just being closed.
    timeout: IDLE_MS,
  });
  return {
    async request(url, { body, ...options } = {}) {
      const asked = request(url, { ...options, agent });
      // What fails after the answer began is told by the answer.
      asked.on('error', () => {});
      asked.end(body);
      const [answer] = (await once(asked, 'response')) as [IncomingMessage];
      return { status: answer.statusCode ?? 0, headers: answer.headers, body: await text(answer) };
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}
