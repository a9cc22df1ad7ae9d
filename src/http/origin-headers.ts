// Headers of the origin's answer, in one look at each: those of its connection stay there, what it says about limits is
// kept apart from what Weir says, and the one that tells the real cost is for Weir alone.
import { HOP_BY_HOP, namesIn } from './proxy/headers.ts';

const RATE_LIMIT = /^(x-ratelimit-.+|ratelimit|ratelimit-.+)$/;
const isRateLimit = (name: string) =>
  (name.startsWith('x-r') || name.startsWith('r')) && RATE_LIMIT.test(name);
const COST = /^\d{1,12}$/;

export type OriginRateLimitHeaders = 'rename' | 'drop' | 'keep';

export interface OriginHeaderPolicy {
  /** `rename`: `X-RateLimit-Limit` becomes `X-Origin-RateLimit-Limit`, `RateLimit` becomes `X-Origin-RateLimit`. */
  readonly rateLimitHeaders: OriginRateLimitHeaders;
  readonly costHeader: string;
}

/** Takes out what is not for the client. Gives the real cost; undefined if the origin tells none that can be read. */
export function takeOriginHeaders(
  headers: Headers,
  { rateLimitHeaders, costHeader }: OriginHeaderPolicy,
): number | undefined {
  const costName = costHeader.toLowerCase();
  const taken: string[] = [];
  for (const name of headers.keys())
    if (name === costName || HOP_BY_HOP.has(name) || (rateLimitHeaders !== 'keep' && isRateLimit(name)))
      taken.push(name);
  // Nearly always.
  if (taken.length === 0) return undefined;
  const costText = headers.get(costName) ?? '';
  const isNamed = namesIn(headers.get('Connection'));
  for (const name of taken) {
    const value = headers.get(name) ?? '';
    headers.delete(name);
    if (rateLimitHeaders === 'rename' && isRateLimit(name))
      headers.append(`x-origin-${name.replace(/^x-/, '')}`, value);
  }
  if (taken.includes('connection'))
    for (const name of [...headers.keys()]) if (isNamed(name)) headers.delete(name);
  return COST.test(costText) ? Number(costText) : undefined;
}
