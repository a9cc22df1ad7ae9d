// Cleans the headers of the origin's answer in one pass. It removes hop-by-hop headers, keeps the origin's rate-limit
// headers apart from Weir's, and takes out the header with the real cost.
import { HOP_BY_HOP, namesIn } from './proxy/headers.ts';

const RATE_LIMIT = /^(x-ratelimit-.+|ratelimit|ratelimit-.+)$/;
const isRateLimit = (name: string) =>
  (name.startsWith('x-r') || name.startsWith('r')) && RATE_LIMIT.test(name);
/** The usual value of `Connection`, which names no other header. */
const KEEP_ALIVE = 'keep-alive';
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
    if (name === costHeader || HOP_BY_HOP.has(name) || (rateLimitHeaders !== 'keep' && isRateLimit(name)))
      taken.push(name);
  let costText = '';
  let connection = KEEP_ALIVE;
  for (const name of taken) {
    const value = headers.get(name) ?? '';
    headers.delete(name);
    if (name === costHeader) costText = value;
    if (name === 'connection') connection = value;
    if (rateLimitHeaders === 'rename' && isRateLimit(name))
      headers.append(`x-origin-${name.replace(/^x-/, '')}`, value);
  }
  if (connection !== KEEP_ALIVE) removeNamed(headers, connection);
  return costText !== '' && COST.test(costText) ? Number(costText) : undefined;
}

/** Headers that `Connection` names are hop-by-hop, too. */
function removeNamed(headers: Headers, connection: string): void {
  const named = namesIn(connection);
  if (named) for (const name of [...headers.keys()]) if (named.has(name)) headers.delete(name);
}
