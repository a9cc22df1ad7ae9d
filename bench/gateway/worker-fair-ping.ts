// The proxy with Weir's duties after one PING, sent as Weir sends its own requests. A limiter with these duties that
// asks Redis once costs at least this much.
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
