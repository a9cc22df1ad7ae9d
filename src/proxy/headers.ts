// The headers of a request on its way to the origin, and those of the answer on its way to the client. Hop-by-hop
// headers stay behind. No client can forge a header of Weir, or one that origins trust because a proxy in front of them
// sets it. No origin can speak for Weir. docs/routes.md has a table of these headers.

import type { Caller } from '../core/matching/caller.ts';
import { DEFAULT_KEY_PLACES, isCookieOfWeir } from '../http/credentials.ts';
import type { ClientRequest } from '../http/guard.ts';

/** Which optional headers of a request go to the origin. */
export interface HeaderPolicy {
  /** Headers that make an origin treat the request as another method or path, which no rule has judged. */
  readonly overrides: 'drop' | 'keep';
  /** Cloudflare Access protects the admin route. Its credentials are not for the origin. */
  readonly hidesAccess: boolean;
  /** Headers that Weir reads as one text, in lower case. Left out: where API keys stand by default. */
  readonly joined?: readonly string[] | undefined;
}

/** Ids of the Weirs that a request has passed, oldest first. A client that forges one only gets itself refused. */
export const HOP_HEADER = 'X-Weir-Hop';

export interface ForwardedHeaders {
  readonly policy: HeaderPolicy;
  /** Who the caller is, as Weir has verified it. */
  readonly identity?: Readonly<Record<string, string>> | undefined;
  /** Names the Weirs that the request has passed. */
  readonly hop: string;
  /** Headers of the route. They replace what the client sends under these names. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/**
 * Returns a test for these names. The test compares a name only with names of the same length. A Set would be slower:
 * the runtime makes a new string for each header name, and hashing such a string takes 650 instructions.
 */
function isOneOf(...names: readonly string[]): (name: string) => boolean {
  const byLength: string[][] = [];
  for (const name of names) byLength[name.length] = [...(byLength[name.length] ?? []), name];
  return (name) => byLength[name.length]?.includes(name) === true;
}

/** These belong to one connection (RFC 9110, 7.6.1), whether or not `Connection` names them. */
export const isHopByHop = isOneOf(
  'connection',
  // workerd would mistake the 100 for the final answer.
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
);

/**
 * Headers that make an origin see another method, path or host than the rules have judged: of IIS, nginx, Envoy and
 * Traefik, of frameworks that imitate them, and of frameworks that tunnel methods through a POST. Gunicorn and WSGI apps
 * cut the value of `SCRIPT_NAME` or `X-Script-Name` off the beginning of the path.
 */
const isMethodOrPath = isOneOf(
  'script-name',
  'x-envoy-original-path',
  'x-forwarded-method',
  'x-forwarded-path',
  'x-forwarded-prefix',
  'x-forwarded-uri',
  'x-host',
  'x-http-host-override',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-host',
  'x-original-method',
  'x-original-path',
  'x-original-uri',
  'x-original-url',
  'x-replaced-path',
  'x-rewrite-url',
  'x-script-name',
);

/** Proxies set these to the address of the client, and so does Weir, if they are there. */
const isClientAddress = isOneOf('true-client-ip', 'x-real-ip');

/** Other names for the address of the client. Weir does not set them, so only the client could have. */
const isClaimedAddress = isOneOf(
  'client-ip',
  'fastly-client-ip',
  'forwarded',
  'x-client-ip',
  'x-cluster-client-ip',
  'x-envoy-external-address',
  'x-originating-ip',
  'x-remote-addr',
  'x-remote-ip',
);

/** CGI programs send their own calls through the proxy that this names, because it becomes HTTP_PROXY ("httpoxy"). */
const isHttpoxy = (name: string): boolean => name === 'proxy';

/** Weir sets these itself. All other `X-Forwarded-…` come from the client. */
const isForwardedByWeir = isOneOf('x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto');

const isAccessCredential = isOneOf(
  'cf-access-client-id',
  'cf-access-client-secret',
  'cf-access-jwt-assertion',
  'cf-access-token',
);
/** Says who and where the client is. The client must not be able to remove it by naming it in `Connection`. */
const isKept = (name: string): boolean => name.startsWith('cf-') || isClientAddress(name);
const FORWARDED_FOR = 'x-forwarded-for';
const ACCESS_COOKIE = 'cf_authorization';

export function toOriginHeaders(request: ClientRequest, options: ForwardedHeaders): Headers {
  const { policy, identity, hop } = options;
  const headers = new Headers(request.headers);
  const forwardedFor = removeUnwanted(headers, request, policy);
  if (policy.hidesAccess) removeAccessCookie(headers);
  setForwarded(headers, request, forwardedFor);
  setAll(headers, identity);
  headers.set(HOP_HEADER, hop);
  setAll(headers, options.headers);
  return headers;
}

function setAll(headers: Headers, added: Readonly<Record<string, string>> = {}): void {
  for (const name in added) headers.set(name, added[name] ?? '');
}

/**
 * Makes one pass over the headers that the client sent, because every call into the runtime costs time. Returns the
 * client's `X-Forwarded-For`.
 */
function removeUnwanted(headers: Headers, request: ClientRequest, policy: HeaderPolicy): string | null {
  const { headers: sent, connectingIp } = request;
  let isUpgrade = false;
  let forwardedFor: string | null = null;
  let connection: string | null = null;
  for (const name of sent.keys()) {
    if (name === FORWARDED_FOR) forwardedFor = sent.get(name);
    else if (isClientAddress(name) && connectingIp !== null) headers.set(name, connectingIp);
    else if (isClientAddress(name)) headers.delete(name);
    else if (isJoined(name, policy)) joinLines(headers, name);
    if (!isUnwanted(name, policy)) continue;
    if (name === 'upgrade') isUpgrade = isWebSocket(request);
    else if (name === 'connection') connection = sent.get(name);
    headers.delete(name);
  }
  removeNamed(headers, connection);
  if (isUpgrade) headers.set('Upgrade', 'websocket');
  return forwardedFor;
}

/** Compares few names, mostly of another length. */
const isJoined = (name: string, { joined = DEFAULT_JOINED }: HeaderPolicy): boolean => joined.includes(name);
const DEFAULT_JOINED: readonly string[] = DEFAULT_KEY_PLACES.map(({ header }) => header);

/** Weir reads several lines as one text, which is no valid key. An origin must not find a valid key in one of them. */
function joinLines(headers: Headers, name: string): void {
  const value = headers.get(name);
  if (value?.includes(',')) headers.set(name, value);
}

/** Headers that `Connection` names belong to one connection, too. */
function removeNamed(headers: Headers, connection: string | null): void {
  const named = namesIn(connection);
  if (!named) return;
  for (const name of [...headers.keys()]) if (named.has(name) && !isKept(name)) headers.delete(name);
}

/** Only a GET can open a WebSocket. fetch turns other methods with this header into a GET that no rule has judged. */
const isWebSocket = ({ method, headers }: ClientRequest): boolean =>
  method === 'GET' && headers.get('Upgrade')?.toLowerCase() === 'websocket';

function isUnwanted(name: string, policy: HeaderPolicy): boolean {
  if (OTHER_MARK.test(name)) return isSpelledOtherwise(name.replace(OTHER_MARKS, '-'), policy);
  if (isClaimedAddress(name) || isHttpoxy(name)) return true;
  if (name[0] === 'x' || name[0] === 's') return isSpoofed(name, policy);
  return isHopByHop(name) || (policy.hidesAccess && isAccessCredential(name));
}

/** What a name can hold besides letters, digits and `-`. */
const OTHER_MARK = /[^a-z0-9-]/;
const OTHER_MARKS = /[^a-z0-9-]/g;

/** Values of `Connection` that name no header to remove. */
const USUAL: ReadonlySet<string> = new Set(['keep-alive', 'close', 'upgrade']);

/** The headers that `Connection` names; undefined in the usual case, if there is none to remove. */
function namesIn(connection: string | null): ReadonlySet<string> | undefined {
  if (connection === null || USUAL.has(connection.toLowerCase())) return undefined;
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}

/** Keeps all other cookies as the client sent them. */
function removeAccessCookie(headers: Headers): void {
  const cookies = headers.get('Cookie')?.split(';') ?? [];
  const others = cookies.filter((cookie) => cookie.split('=')[0]?.trim().toLowerCase() !== ACCESS_COOKIE);
  if (others.length === cookies.length) return;
  if (others.length === 0) headers.delete('Cookie');
  else headers.set('Cookie', others.join(';').trim());
}

/** Headers that only Weir may set, or that ask the origin to treat the request as another one. */
function isSpoofed(name: string, { overrides }: HeaderPolicy): boolean {
  if (name.startsWith('x-weir-')) return true;
  if (isMethodOrPath(name)) return overrides === 'drop';
  return name.startsWith('x-forwarded-') && !isForwardedByWeir(name);
}

/**
 * `x_weir_user`, `cf.connecting.ip`: CGI, WSGI and PHP origins treat `_` and `-` alike; PHP a dot as well, and lighttpd
 * every mark. No proxy writes such a name, so
 * it comes from the client, and the origin may prefer it to the one that Weir or Cloudflare has set. Weir reads no key
 * from `x_api_key`, so the origin must not find one there.
 */
const isSpelledOtherwise = (dashed: string, policy: HeaderPolicy): boolean =>
  dashed.startsWith('cf-') ||
  isForwardedByWeir(dashed) ||
  isClientAddress(dashed) ||
  isClaimedAddress(dashed) ||
  isJoined(dashed, policy) ||
  isSpoofed(dashed, policy);

/** Puts the client's address last. The client may have forged everything before it. */
function setForwarded(headers: Headers, request: ClientRequest, path: string | null): void {
  const { url, connectingIp: address } = request;
  if (address !== null) {
    // If Cloudflare's proxy is in front of the Worker, it has already appended the address.
    const isAppended = path?.split(',').at(-1)?.trim() === address;
    headers.set('X-Forwarded-For', path === null ? address : isAppended ? path : `${path}, ${address}`);
  }
  // The runtime has normalised the URL, so a slash ends the host.
  const hostAt = url.indexOf('://') + 3;
  headers.set('X-Forwarded-Proto', url.slice(0, hostAt - 3));
  headers.set('X-Forwarded-Host', url.slice(hostAt, url.indexOf('/', hostAt)));
  headers.delete('Host');
}

// Headers that tell the origin who calls. The proxy removes headers of these names that a client sends.

/** `tier`: the caller's own, or the default one. */
export function identityHeaders(
  caller: Caller | undefined,
  tier: string | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  if (caller?.userId !== undefined) headers['X-Weir-User'] = toValue(caller.userId);
  if (caller?.apiKeyId !== undefined) headers['X-Weir-Key-Id'] = toValue(caller.apiKeyId);
  if (caller?.tenantId !== undefined) headers['X-Weir-Tenant'] = toValue(caller.tenantId);
  if (tier !== undefined) headers['X-Weir-Tier'] = toValue(tier);
  return headers;
}

/** Percent-encodes characters that a header cannot hold, and the percent sign. */
const toValue = (text: string) =>
  text.replace(/[^\x21-\x24\x26-\x7e]/gu, (character) => encodeURIComponent(character));

// The answer of the origin. One pass keeps the origin's rate-limit headers apart from Weir's, takes out the header with
// the real cost, and drops cookies that are meant for Weir and headers that only Weir may set.

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
  if (!cookies.some(isCookieOfWeir)) return;
  headers.delete('Set-Cookie');
  for (const cookie of cookies) if (!isCookieOfWeir(cookie)) headers.append('Set-Cookie', cookie);
}
