// Cleans the headers of the origin's answer in one pass. It removes hop-by-hop headers, keeps the origin's rate-limit
// headers apart from Weir's, and takes out the header with the real cost.
import { isHopByHop, removeNamed } from './proxy/headers.ts';

const RATE_LIMIT = /^(x-ratelimit-.+|ratelimit|ratelimit-.+)$/;
const isRateLimit = (name: string) =>
  (name[0] === 'r' || (name[0] === 'x' && name[2] === 'r')) && RATE_LIMIT.test(name);
const COST = /^\d{1,12}$/;

export type OriginRateLimitHeaders = 'rename' | 'drop' | 'keep';

export interface OriginHeaderPolicy {
  /** `rename`: `X-RateLimit-Limit` becomes `X-Origin-RateLimit-Limit`, `RateLimit` becomes `X-Origin-RateLimit`. */
  readonly rateLimitHeaders: OriginRateLimitHeaders;
  /** In lower case. */
  readonly costHeader: string;
}

/** Removes headers that are not for the client. Returns the real cost; undefined if the origin names no valid one. */
export function takeOriginHeaders(
  headers: Headers,
  { rateLimitHeaders, costHeader }: OriginHeaderPolicy,
): number | undefined {
  const taken: string[] = [];
  for (const name of headers.keys())
    if (name === costHeader || isHopByHop(name) || (rateLimitHeaders !== 'keep' && isRateLimit(name)))
      taken.push(name);
  let costText = '';
  let connection: string | null = null;
  for (const name of taken) {
    if (name === costHeader) costText = headers.get(name) ?? '';
    if (name === 'connection') connection = headers.get(name);
    if (rateLimitHeaders === 'rename' && isRateLimit(name))
      headers.append(`x-origin-${name.replace(/^x-/, '')}`, headers.get(name) ?? '');
    headers.delete(name);
  }
  removeNamed(headers, connection);
  return costText !== '' && COST.test(costText) ? Number(costText) : undefined;
}
