// A redis-server with a gateway in front of it, and the shortest way to talk to both.
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import {
  startUpstashGateway,
  type UpstashGateway,
  type UpstashGatewayOptions,
} from '../../local/upstash-gateway/server.ts';

export const TOKEN = 'secret-token';
export const FLAG = '#!lua flags=allow-key-locking\n';

export interface Answered {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON the gateway sends, for assertions only
  json: any;
}

export interface Harness {
  redis: RedisServer;
  gateway: UpstashGateway;
  /** POST / with the command as a JSON array. */
  send(...command: unknown[]): Promise<Answered>;
  /** Any request. It has the token, unless `headers` say otherwise. */
  request(path: string, init?: RequestInit): Promise<Answered>;
  /** What the commands of `run` cost. */
  billed(run: () => Promise<unknown>): Promise<number>;
  stop(): Promise<void>;
}

export async function startHarness(options: Partial<UpstashGatewayOptions> = {}): Promise<Harness> {
  const redis = await startRedisServer({ port: 0, name: 'test' });
  const gateway = await startUpstashGateway({
    port: 0,
    token: TOKEN,
    redisUrl: redis.url,
    name: 'test',
    ...options,
  });
  const request = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(gateway.url + path, {
      ...init,
      headers: { authorization: `Bearer ${TOKEN}`, ...(init.headers as Record<string, string>) },
    });
    const text = await response.text();
    return { status: response.status, json: text === '' ? undefined : JSON.parse(text) };
  };
  const send = (...command: unknown[]) => request('/', { method: 'POST', body: JSON.stringify(command) });
  const billed = async (run: () => Promise<unknown>) => {
    const before = await gateway.stats();
    await run();
    return (await gateway.stats()).billed - before.billed;
  };
  const stop = async () => {
    await gateway.stop();
    await redis.stop();
  };
  return { redis, gateway, send, request, billed, stop };
}

/** Whether a promise is still pending after all pending work had time to finish. */
export async function isPending(promise: Promise<unknown>, waitMs = 100): Promise<boolean> {
  const pending = Symbol('pending');
  const timer = new Promise((resolve) => setTimeout(resolve, waitMs, pending));
  return (
    (await Promise.race([
      promise.then(
        () => undefined,
        () => undefined,
      ),
      timer,
    ])) === pending
  );
}

/** Retries at once until it succeeds, for parts that must recover soon by themselves. */
export async function eventually<T>(attempt: () => Promise<T>, withinMs = 30_000): Promise<T> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (Date.now() > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}
