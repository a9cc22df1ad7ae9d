// Cleans the headers of the origin's answer in one pass. It removes hop-by-hop headers, keeps the origin's rate-limit
// headers apart from Weir's, takes out the header with the real cost, and drops cookies that are meant for Weir and
// headers that only Weir may set.
import { isForWeir } from '../http/session-cookie.ts';
import { isHopByHop, removeNamed } from './request-headers.ts';

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
  let hasCookies = false;
  for (const name of headers.keys()) {
    if (name === 'set-cookie') hasCookies = true;
    else if (
      name === costHeader ||
      isHopByHop(name) ||
      name.startsWith('x-weir-') ||
      (rateLimitHeaders !== 'keep' && isRateLimit(name))
    )
      taken.push(name);
  }
  if (hasCookies) removeCookiesForWeir(headers);
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

/** Otherwise the origin could replace the session of a person at the page. */
function removeCookiesForWeir(headers: Headers): void {
  const cookies = headers.getSetCookie();
  if (!cookies.some(isForWeir)) return;
  headers.delete('Set-Cookie');
  for (const cookie of cookies) if (!isForWeir(cookie)) headers.append('Set-Cookie', cookie);
}
