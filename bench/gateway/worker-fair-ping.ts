// The proxy with Weir's duties after one PING, by the way that Weir's own requests take: the least that a limiter with these
// duties costs, if it asks Redis once.
import { type Client, createClient } from '../../src/redis/client.ts';
import { askOrigin, toClient } from './duties.ts';
import type { ProxyEnv } from './to-origin.ts';

interface PingEnv extends ProxyEnv {
  readonly REDIS_URL: string;
  readonly REDIS_TOKEN: string;
  readonly DEADLINE_MS: string;
}

let client: Client | undefined;

export default {
  async fetch(request: Request, env: PingEnv): Promise<Response> {
    client ??= createClient({ url: env.REDIS_URL, token: env.REDIS_TOKEN });
    await client.command(AbortSignal.timeout(Number(env.DEADLINE_MS)), ['PING']);
    return toClient(await askOrigin(request, env), () => {});
  },
};
