// The proxy behind @upstash/ratelimit, as its users write it: one limiter for each limit, asked one after the other.
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis/cloudflare';
import { WINDOW_SECONDS } from './limits.ts';
import { type ProxyEnv, toOrigin } from './to-origin.ts';

interface UpstashEnv extends ProxyEnv {
  readonly REDIS_URL: string;
  readonly REDIS_TOKEN: string;
  readonly LIMIT: string;
  readonly LIMIT_COUNT: string;
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

let limiters: readonly Ratelimit[] | undefined;

export default {
  async fetch(request: Request, env: UpstashEnv, context: Context): Promise<Response> {
    limiters ??= createLimiters(env);
    const ip = request.headers.get('CF-Connecting-IP') ?? '';
    for (const limiter of limiters) {
      const { success, reason, pending } = await limiter.limit(ip);
      context.waitUntil(pending);
      if (!success) return new Response('too many requests', { status: 429 });
      // It lets everyone pass when Redis is slow: that would not be a measurement of it.
      if (reason === 'timeout')
        return new Response('not counted', { status: 503, headers: { 'X-Weir-Degraded': reason } });
    }
    return toOrigin(request, env);
  },
};

function createLimiters({ REDIS_URL, REDIS_TOKEN, LIMIT, LIMIT_COUNT }: UpstashEnv): Ratelimit[] {
  // As lean as Weir's own client, which is leaner than what it has by default.
  const redis = new Redis({
    url: REDIS_URL,
    token: REDIS_TOKEN,
    enableAutoPipelining: false,
    retry: { retries: 0 },
    automaticDeserialization: false,
    responseEncoding: false,
    readYourWrites: false,
    enableTelemetry: false,
  });
  return WINDOW_SECONDS.slice(0, Number(LIMIT_COUNT)).map(
    (seconds) =>
      new Ratelimit({
        redis,
        limiter: Ratelimit.slidingWindow(Number(LIMIT), `${seconds} s`),
        prefix: `peer:${LIMIT_COUNT}:${seconds}`,
        ephemeralCache: false,
        analytics: false,
      }),
  );
}
