// The bare proxy behind @upstash/ratelimit.
import { ask, type Context, type LimitsEnv } from './peer-limits.ts';
import { type ProxyEnv, toOrigin } from './to-origin.ts';

export default {
  async fetch(request: Request, env: ProxyEnv & LimitsEnv, context: Context): Promise<Response> {
    const verdicts = await ask(request, env, context);
    return verdicts instanceof Response ? verdicts : toOrigin(request, env);
  },
};
