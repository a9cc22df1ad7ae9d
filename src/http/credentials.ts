// The credentials that a request can show: the Authorization header, for users' tokens, admins and checks alike, and the
// session cookie of the page.
import { isOwnPath } from '../core/matching/resource.ts';

// Anybody may send an Authorization header, so it is read with no pattern that has two repetitions which both match
// blanks: such a pattern takes quadratic time.

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

// The session cookie: its name, its attributes, and how to find it in a request.

export interface SessionCookie {
  readonly name: string;
  readonly attributes: string;
}

const STRICT = 'HttpOnly; Secure; SameSite=Strict';

/** Without ADMIN_HOST. The path keeps the cookie away from the origin: browsers send it only to Weir's own paths. */
const ON_SHARED_HOST: SessionCookie = { name: '__Secure-weir', attributes: `Path=/_weir; ${STRICT}` };
/** Browsers accept this prefix only from the host itself, so no other host of the site can set the cookie. */
const ON_ADMIN_HOST: SessionCookie = { name: '__Host-weir', attributes: `Path=/; ${STRICT}` };

export const sessionCookieOf = (adminHost: string | undefined): SessionCookie =>
  adminHost === undefined ? ON_SHARED_HOST : ON_ADMIN_HOST;

const NAMES: readonly string[] = [ON_SHARED_HOST.name, ON_ADMIN_HOST.name].map((name) => name.toLowerCase());

/** Longer than any session. A longer cookie is ignored. */
const MAX_COOKIE_LENGTH = 2_048;

/** Undefined if there is none. */
export function cookieIn({ headers }: Pick<Request, 'headers'>, { name }: SessionCookie): string | undefined {
  const prefix = `${name}=`;
  const found = headers
    .get('Cookie')
    ?.split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(prefix));
  return found === undefined || found.length > MAX_COOKIE_LENGTH ? undefined : found.slice(prefix.length);
}

/**
 * Whether a Set-Cookie of the origin names a cookie of Weir, or a path of Weir. Browsers send a cookie without a name as
 * its bare value, so `=__Secure-weir=x` is such a name, too.
 */
export function isCookieOfWeir(setCookie: string): boolean {
  const [pair = '', ...attributes] = setCookie.split(';');
  const [name] = pair
    .trim()
    .replace(/^=+\s*/, '')
    .split('=', 1);
  if (NAMES.includes((name ?? '').trim().toLowerCase())) return true;
  return attributes.some((attribute) => {
    const [key = '', ...value] = attribute.split('=');
    return key.trim().toLowerCase() === 'path' && isOwnPath(value.join('=').trim().toLowerCase());
  });
}
