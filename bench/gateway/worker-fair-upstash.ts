// @upstash/ratelimit with Weir's duties, and with X-RateLimit headers.
import { askOrigin, toClient } from './duties.ts';
import { ask, type Context, type LimitsEnv, type Verdict } from './peer-limits.ts';
import type { ProxyEnv } from './to-origin.ts';

export default {
  async fetch(request: Request, env: ProxyEnv & LimitsEnv, context: Context): Promise<Response> {
    const verdicts = await ask(request, env, context);
    if (verdicts instanceof Response) return verdicts;
    return toClient(await askOrigin(request, env), (headers) => setLimitHeaders(headers, verdicts));
  },
};

/** The numbers of the tightest limit. */
function setLimitHeaders(headers: Headers, verdicts: readonly Verdict[]): void {
  const tightest = verdicts.reduce((least, one) => (one.remaining < least.remaining ? one : least));
  headers.set('X-RateLimit-Limit', String(tightest.limit));
  headers.set('X-RateLimit-Remaining', String(tightest.remaining));
  headers.set('X-RateLimit-Reset', String(Math.ceil(tightest.reset / 1_000)));
}
