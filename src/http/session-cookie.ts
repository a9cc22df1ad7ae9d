// The session cookie of the page: its name, its attributes, and how to find it in a request.
import { isOwnPath } from '../core/matching/resource.ts';

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
const MAX_LENGTH = 2_048;

/** Undefined if there is none. */
export function cookieIn({ headers }: Pick<Request, 'headers'>, { name }: SessionCookie): string | undefined {
  const prefix = `${name}=`;
  const found = headers
    .get('Cookie')
    ?.split(';')
    .map((part) => part.trim())
    .find((part) => part.startsWith(prefix));
  return found === undefined || found.length > MAX_LENGTH ? undefined : found.slice(prefix.length);
}

/**
 * Whether a Set-Cookie of the origin names a cookie of Weir, or a path of Weir. Browsers send a cookie without a name as
 * its bare value, so `=__Secure-weir=x` is such a name, too.
 */
export function isForWeir(setCookie: string): boolean {
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
