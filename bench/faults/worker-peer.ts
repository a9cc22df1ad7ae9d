// The proxy behind @upstash/ratelimit, as its documentation shows it for Workers: clients with their defaults, made for
// each request, and a cache outside of the handler.
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis/cloudflare';
import { type ProxyEnv, toOrigin } from '../gateway/to-origin.ts';
import { HOT_LIMIT, OUTAGE_LIMIT, ROOMY_LIMIT } from './rules.ts';

interface PeerEnv extends ProxyEnv {
  /** In the same form as Weir's variable. */
  readonly REGIONS: string;
  /** Milliseconds; empty for the default of 5000. */
  readonly TIMEOUT: string;
}

interface Context {
  waitUntil(work: Promise<unknown>): void;
}

const LIMITERS = {
  '/roomy': Ratelimit.fixedWindow(ROOMY_LIMIT, '366 d'),
  '/open': Ratelimit.fixedWindow(OUTAGE_LIMIT, '366 d'),
  '/fixed-window': Ratelimit.fixedWindow(HOT_LIMIT, '1 s'),
  '/sliding-window-counter': Ratelimit.slidingWindow(HOT_LIMIT, '1 s'),
  '/token-bucket': Ratelimit.tokenBucket(HOT_LIMIT, '1 s', HOT_LIMIT),
};

const cache = new Map<string, number>();

export default {
  async fetch(request: Request, env: PeerEnv, context: Context): Promise<Response> {
    try {
      return await limited(request, env, context);
    } catch (error) {
      // Cloudflare would answer an exception in this way. workerd would also print each of them.
      return new Response(String(error), { status: 500 });
    }
  },
};

async function limited(request: Request, env: PeerEnv, context: Context): Promise<Response> {
  const path = new URL(request.url).pathname as keyof typeof LIMITERS;
  const ratelimit = new Ratelimit({
    redis: redisFor(request, env),
    limiter: LIMITERS[path],
    prefix: `peer${path}`,
    ephemeralCache: cache,
    ...(env.TIMEOUT !== '' && { timeout: Number(env.TIMEOUT) }),
  });
  const id = request.headers.get('CF-Connecting-IP') ?? '';
  const { success, reason, pending } = await ratelimit.limit(id);
  context.waitUntil(pending);
  if (!success) return new Response('too many requests', { status: 429 });
  const answer = await toOrigin(request, env).catch(
    () => new Response('origin-unreachable', { status: 502 }),
  );
  if (reason !== 'timeout') return answer;
  // Uses Weir's name for it, so that one load reads both.
  return new Response(answer.body, { headers: { 'X-Weir-Degraded': reason } });
}

function redisFor(request: Request, { REGIONS }: PeerEnv): Redis {
  const regions = JSON.parse(REGIONS) as { name: string; url: string; token: string }[];
  const region = regions.find(({ name }) => name === request.headers.get('X-Weir-Region'));
  return new Redis({ url: region?.url ?? '', token: region?.token ?? '' });
}
