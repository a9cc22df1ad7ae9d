// The proxy after one PING, sent by Weir's own client. Any limiter that asks Redis once costs at least this much.
import { type Client, createClient } from '../../src/redis/client.ts';
import { type ProxyEnv, toOrigin } from './to-origin.ts';

interface PingEnv extends ProxyEnv {
  readonly REDIS_URL: string;
  readonly REDIS_TOKEN: string;
  readonly DEADLINE_MS: string;
}

let client: Client | undefined;

export default {
  async fetch(request: Request, env: PingEnv): Promise<Response> {
    client ??= createClient({ url: env.REDIS_URL, token: env.REDIS_TOKEN });
    await client.send(AbortSignal.timeout(Number(env.DEADLINE_MS)), (redis) => redis.ping());
    return toOrigin(request, env);
  },
};
