// The Authorization header in its two parts. Anybody may send one, so it is read without a regular expression: two
// repetitions side by side that can both match a blank take time by the square of its length.
import { cookieIn } from './session-cookie.ts';

export interface Authorization {
  /** In lower case. */
  readonly scheme: string;
  readonly credentials: string;
}

/** Longer than any token that Weir takes: what is longer is read as if it had no credentials. */
const MAX_LENGTH = 16_384;

/** Blanks at the end are no part of a header, but workerd leaves them there. */
export function parseAuthorization(header: string): Authorization {
  const text = header.trim();
  const blank = text.indexOf(' ');
  if (blank === -1) return { scheme: text.toLowerCase(), credentials: '' };
  const credentials = text.length > MAX_LENGTH ? '' : text.slice(blank).trim();
  return { scheme: text.slice(0, blank).toLowerCase(), credentials };
}

/** Whether a request claims to be an admin's: by a token, by what Cloudflare Access says of it, or by a session. */
export const hasAdminCredentials = (request: Pick<Request, 'headers'>): boolean =>
  request.headers.has('Authorization') ||
  request.headers.has('Cf-Access-Jwt-Assertion') ||
  cookieIn(request) !== undefined;
