// Parses the Authorization header without a regular expression. Anybody may send one, and a pattern with two
// repetitions that both match blanks takes quadratic time.
import { cookieIn } from './session-cookie.ts';

export interface Authorization {
  /** In lower case. */
  readonly scheme: string;
  readonly credentials: string;
}

/** Longer than any token that Weir accepts. A longer header counts as no credentials. */
const MAX_LENGTH = 16_384;

/** Trims blanks at the end, because workerd leaves them in the header. */
export function parseAuthorization(header: string): Authorization {
  const text = header.trim();
  const blank = text.indexOf(' ');
  if (blank === -1) return { scheme: text.toLowerCase(), credentials: '' };
  const credentials = text.length > MAX_LENGTH ? '' : text.slice(blank).trim();
  return { scheme: text.slice(0, blank).toLowerCase(), credentials };
}

/** Whether a request carries admin credentials of any kind: a token, a Cloudflare Access header or a session. */
export const hasAdminCredentials = (request: Pick<Request, 'headers'>): boolean =>
  request.headers.has('Authorization') ||
  request.headers.has('Cf-Access-Jwt-Assertion') ||
  cookieIn(request) !== undefined;
