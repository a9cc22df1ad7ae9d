// The credentials that a request can show: the Authorization header, for users' tokens, admins and checks alike, the API
// key in one of its places, and the session cookie of the page.
import { isOwnPath } from '../core/matching/resource.ts';
import type { SentCredentials, SourceHeader } from '../core/ports/callers.ts';

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

/** Trims blanks at the end, because workerd leaves them in the header. */
export function parseAuthorization(header: string): Authorization {
  const token = credentialsOf(header, 'bearer');
  if (token !== undefined) return { scheme: 'bearer', credentials: token };
  if (!begins(header.trim(), 'basic')) return { scheme: undefined, credentials: '' };
  return { scheme: 'basic', credentials: credentialsOf(header, 'basic') ?? '' };
}

/**
 * What stands after the scheme; empty if it cannot be read. Undefined: the header has another scheme. Several headers
 * arrive as one value with commas, and an origin may read a later one, so such a header cannot be read.
 */
function credentialsOf(header: string, scheme: string): string | undefined {
  const text = header.trim();
  if (!begins(text, scheme)) return isInLaterLine(text, scheme) ? '' : undefined;
  const rest = text.slice(scheme.length);
  const isReadable = text.length <= MAX_LENGTH && (rest[0] === ' ' || rest[0] === '\t');
  return isReadable ? rest.trim() : '';
}

const begins = (text: string, scheme: string) => text.slice(0, scheme.length).toLowerCase() === scheme;
const isInLaterLine = (text: string, scheme: string) =>
  text.includes(',') && text.split(',').some((line) => begins(line.trim(), scheme));

// Where API keys stand: in a header of their own, or in `Authorization`.

export interface KeyPlace {
  /** The header or scheme as it was written. */
  readonly name: string;
  /** In lower case. */
  readonly header: string;
  /** Of `Authorization`, in lower case. `basic`: the key is the user name. Undefined: the key is the whole header. */
  readonly scheme?: string | undefined;
  /** What else stands behind this scheme is no key. */
  readonly prefix?: string | undefined;
}

/** In the order in which they are read. */
export type KeyPlaces = readonly [KeyPlace, ...KeyPlace[]];

const AUTHORIZATION = 'authorization';
const SCHEME = /^authorization:[ \t]*([a-z][a-z0-9-]{0,31})(?:[ \t]+([\x21-\x7e]{1,64}))?$/i;
const HEADER = /^[a-z0-9-]{1,64}$/i;
/** Followed by credentials. */
const ANY_SCHEME = /^[a-z][a-z0-9-]*[ \t]/i;
/** A whole cookie is no key, and the others are not the client's own. */
const NO_PLACE = /^(?:cookie|host|connection|proxy-authorization|cf-.*|x-weir-.*|x-forwarded-.*)$/;
const MOST_PLACES = 8;
export const WHAT_ARE_KEY_PLACES = `1 to ${MOST_PLACES} of HEADER, Authorization: SCHEME or Authorization: SCHEME PREFIX, separated by commas`;

/** Undefined if the text is no list of places. */
export function parseKeyPlaces(text: string): KeyPlaces | undefined {
  const places = text.split(',').map((one) => parsePlace(one.trim()));
  const isBad = places.length > MOST_PLACES || places.includes(undefined);
  return isBad ? undefined : (places as unknown as KeyPlaces);
}

function parsePlace(text: string): KeyPlace | undefined {
  const [, name, prefix] = SCHEME.exec(text) ?? [];
  if (name !== undefined) return { name, header: AUTHORIZATION, scheme: name.toLowerCase(), prefix };
  const header = text.toLowerCase();
  return HEADER.test(text) && !NO_PLACE.test(header) ? { name: text, header } : undefined;
}

/** Any bearer token that is no key of Weir's own is left to whom it concerns. */
export const DEFAULT_KEY_HEADERS = 'X-API-Key, Authorization: Bearer weir_';
export const DEFAULT_KEY_PLACES = parseKeyPlaces(DEFAULT_KEY_HEADERS) as KeyPlaces;

export interface ShownCredentials {
  /** If the operator's own authentication decides, nothing else is set. */
  readonly sent?: SentCredentials | undefined;
  /** Empty if a place for keys is filled and cannot be read. */
  readonly key?: string | undefined;
  /** A user's token. Empty if it cannot be read. */
  readonly token?: string | undefined;
  /** Places show different keys, so nobody can say which of them the origin will read. */
  readonly hasSeveralKeys?: boolean | undefined;
}

/**
 * A JSON object in base64 begins with these letters. Keys of three parts with dots exist, too, and no such key begins
 * with them.
 */
const LIKE_A_JWT = /^e[wy][\w-]*\.[\w-]+\.[\w-]+$/;

/** Undefined if the request shows neither. A bearer token that is no key is a user's, if Weir reads these. */
export function credentialsIn(
  headers: Headers,
  places: readonly KeyPlace[],
  readsTokens: boolean,
): ShownCredentials | undefined {
  const authorization = headers.get('Authorization');
  let key: string | undefined;
  let hasSeveralKeys = false;
  let token = readsTokens && authorization !== null ? credentialsOf(authorization, 'bearer') : undefined;
  const isToken = token !== undefined && (token === '' || LIKE_A_JWT.test(token));
  for (const place of places) {
    const isBearer = place.scheme === 'bearer';
    if (isBearer && isToken) continue;
    const shown =
      place.header === AUTHORIZATION ? keyIn(authorization, place) : headers.get(place.header)?.trim();
    if (shown === undefined) continue;
    if (isBearer) token = undefined;
    if (!key) key = shown;
    else if (shown !== '' && shown !== key) hasSeveralKeys = true;
  }
  return key === undefined && token === undefined ? undefined : { key, token, hasSeveralKeys };
}

function keyIn(authorization: string | null, { scheme, prefix = '' }: KeyPlace): string | undefined {
  if (authorization === null) return undefined;
  if (scheme === undefined) return ANY_SCHEME.test(authorization.trim()) ? undefined : authorization.trim();
  const credentials = credentialsOf(authorization, scheme);
  const key = credentials && scheme === 'basic' ? userNameIn(credentials) : credentials;
  return key === undefined || key.startsWith(prefix) || (key === '' && authorization.includes(prefix))
    ? key
    : undefined;
}

/** Empty if it cannot be read. */
function userNameIn(credentials: string): string {
  try {
    return atob(credentials).split(':', 1)[0] ?? '';
  } catch {
    return '';
  }
}

// What the operator's own authentication gets.

const COOKIE = /^cookie:[ \t]*([!#$%&'*+.^_`|~0-9a-z-]{1,64})$/i;
export const WHAT_ARE_SOURCE_HEADERS = `1 to ${MOST_PLACES} of HEADER or Cookie: NAME, separated by commas`;

/** Undefined if the text is no list of headers. */
export function parseSourceHeaders(text: string): readonly SourceHeader[] | undefined {
  const headers = text.split(',').map((one) => parseSourceHeader(one.trim()));
  const isBad = headers.length > MOST_PLACES || headers.includes(undefined);
  return isBad ? undefined : (headers as SourceHeader[]);
}

function parseSourceHeader(text: string): SourceHeader | undefined {
  const cookie = COOKIE.exec(text)?.[1];
  if (cookie !== undefined) return { header: 'cookie', cookie };
  const header = text.toLowerCase();
  const isHeader = HEADER.test(text) && (!NO_PLACE.test(header) || header === 'cf-access-jwt-assertion');
  return isHeader ? { header } : undefined;
}

/** Without a list: where keys stand, and `Authorization`. */
export const sourceHeadersOf = (places: KeyPlaces): readonly SourceHeader[] =>
  [...new Set([...places.map(({ header }) => header), AUTHORIZATION])].map((header) => ({ header }));

/** Longer than any key or token. The others still count: a long header must not hide who calls. */
const MAX_SENT_LENGTH = 8_192;

/** Undefined if the request shows none of them; empty if all are too long. */
export function sentToSource(headers: Headers, wanted: readonly SourceHeader[]): SentCredentials | undefined {
  const shown = wanted.flatMap(({ header, cookie }): [string, string][] => {
    const whole = headers.get(header)?.trim() ?? '';
    const value = cookie === undefined ? whole : cookiesIn(whole, cookie);
    return value === '' ? [] : [[header, value]];
  });
  return shown.length === 0 ? undefined : shown.filter(([, { length }]) => length <= MAX_SENT_LENGTH);
}

/** Several headers of cookies arrive as one value with commas. */
const BETWEEN_COOKIES = /;|,(?=[ \t]*[^=;,\s]+=)/;

/** All of this name, in their order: the source reads them as the origin does. */
const cookiesIn = (header: string, name: string): string =>
  header
    .split(BETWEEN_COOKIES)
    .map((pair) => pair.trim())
    .filter((pair) => pair.split('=', 1)[0]?.trim() === name)
    .join('; ');

/** What a client is told that shows no valid key: the first place. */
export function challengeFor([{ name, scheme }]: KeyPlaces): string {
  if (scheme === undefined) return `ApiKey header="${name}"`;
  return scheme === 'basic' ? 'Basic realm="API"' : name;
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
