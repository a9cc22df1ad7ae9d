// The limits of @upstash/ratelimit as its users write them: one limiter for each, all made once.
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from '@upstash/redis/cloudflare';
import { WINDOW_SECONDS } from './limits.ts';

export interface LimitsEnv {
  readonly REDIS_URL: string;
  readonly REDIS_TOKEN: string;
  readonly LIMIT: string;
  readonly LIMIT_COUNT: string;
  /** `parallel`, or one after the other: then the first limit that denies keeps the rest from being charged. */
  readonly LIMIT_ORDER: string;
}

export interface Context {
  waitUntil(work: Promise<unknown>): void;
}

export type Verdict = Awaited<ReturnType<Ratelimit['limit']>>;

let limiters: readonly Ratelimit[] | undefined;

/** Resolves to the limits that were asked, or to the answer for a denied request. */
export async function ask(request: Request, env: LimitsEnv, context: Context): Promise<Verdict[] | Response> {
  limiters ??= createLimiters(env);
  const ip = request.headers.get('CF-Connecting-IP') ?? '';
  const verdicts: Verdict[] = [];
  const asked = env.LIMIT_ORDER === 'parallel' ? limiters.map((limiter) => limiter.limit(ip)) : undefined;
  for (const [i, limiter] of limiters.entries()) {
    const verdict = await (asked?.[i] ?? limiter.limit(ip));
    context.waitUntil(verdict.pending);
    if (!verdict.success) return new Response('too many requests', { status: 429 });
    // The package lets every request pass when Redis is slow. That would not be a measurement.
    if (verdict.reason === 'timeout')
      return new Response('not counted', { status: 503, headers: { 'X-Weir-Degraded': verdict.reason } });
    verdicts.push(verdict);
  }
  return verdicts;
}

function createLimiters({ REDIS_URL, REDIS_TOKEN, LIMIT, LIMIT_COUNT }: LimitsEnv): Ratelimit[] {
  // As lean as Weir's own client, which is leaner than the package's default.
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
