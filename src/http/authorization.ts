// Parses the Authorization header, for users' tokens, admins and checks alike. Anybody may send one, so it has no
// pattern with two repetitions that both match blanks: such a pattern takes quadratic time.

import { cookieIn, type SessionCookie } from './session-cookie.ts';

export interface Authorization {
  /** Undefined: the header begins with none of the schemes that Weir reads. */
  readonly scheme: 'bearer' | 'basic' | undefined;
  /** Empty if the header begins with the scheme, but cannot be read. An empty text is never a valid credential. */
  readonly credentials: string;
}

/** Longer than any token that Weir accepts. A longer header has no valid credentials. */
const MAX_LENGTH = 16_384;

/** Several headers arrive as one value with commas. An origin may read the token in a later one. */
const LATER_TOKEN = /,[ \t]*bearer/i;

/** Trims blanks at the end, because workerd leaves them in the header. */
export function parseAuthorization(header: string): Authorization {
  const text = header.trim();
  const scheme = schemeOf(text);
  if (scheme !== 'bearer' && LATER_TOKEN.test(text)) return { scheme: 'bearer', credentials: '' };
  if (scheme === undefined) return { scheme, credentials: '' };
  const rest = text.slice(scheme.length);
  const isReadable = text.length <= MAX_LENGTH && (rest[0] === ' ' || rest[0] === '\t');
  return { scheme, credentials: isReadable ? rest.trim() : '' };
}

function schemeOf(text: string): Authorization['scheme'] {
  const start = text.slice(0, 6).toLowerCase();
  return start === 'bearer' ? 'bearer' : start.startsWith('basic') ? 'basic' : undefined;
}

/** Whether a request carries admin credentials of any kind: a token, a Cloudflare Access header or a session. */
export const hasAdminCredentials = (request: Pick<Request, 'headers'>, cookie: SessionCookie): boolean =>
  request.headers.has('Authorization') ||
  request.headers.has('Cf-Access-Jwt-Assertion') ||
  cookieIn(request, cookie) !== undefined;

/** A read changes nothing, and its body means nothing. */
export const isRead = ({ method }: Pick<Request, 'method'>): boolean => method === 'GET' || method === 'HEAD';

/**
 * Whether a script in a browser asks, and not a person who opens an address: `Sec-Fetch-Dest` says so, and no script can
 * set it. A service worker asks, too, and may read what the browser preloads for it. Programs send neither header.
 */
export function isByScript({ headers }: Pick<Request, 'headers'>): boolean {
  const destination = headers.get('Sec-Fetch-Dest');
  const isElsewhere = destination !== null && destination !== 'document';
  return isElsewhere || headers.has('Service-Worker-Navigation-Preload');
}
