// Prepares request headers for the origin. Hop-by-hop headers stay behind, and no client can forge a header of Weir.

/** Which optional headers of a request go to the origin. */
export interface HeaderPolicy {
  /** Headers that make an origin treat the request as another method or path, which no rule has judged. */
  readonly overrides: 'drop' | 'keep';
  /** Cloudflare Access protects the admin route. Its credentials are not for the origin. */
  readonly hidesAccess: boolean;
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
export function isOneOf(...names: readonly string[]): (name: string) => boolean {
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

/** Headers of IIS and frameworks that imitate it, and of frameworks that tunnel methods through a POST. */
const isMethodOrPath = isOneOf(
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-url',
  'x-rewrite-url',
);

const isAccessCredential = isOneOf(
  'cf-access-client-id',
  'cf-access-client-secret',
  'cf-access-jwt-assertion',
  'cf-access-token',
);
/** Names the client. A client must not be able to remove it by naming it in `Connection`. */
const KEPT = 'cf-connecting-ip';
const FORWARDED_FOR = 'x-forwarded-for';
const ACCESS_COOKIE = 'cf_authorization';

export function toOriginHeaders(request: SentRequest, options: ForwardedHeaders): Headers {
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

interface SentRequest extends Pick<Request, 'url' | 'method' | 'headers'> {
  /** The address that Cloudflare names. */
  readonly connectingIp: string | null;
}

function setAll(headers: Headers, added: Readonly<Record<string, string>> = {}): void {
  for (const name in added) headers.set(name, added[name] ?? '');
}

/**
 * Makes one pass over the headers that the client sent, because every call into the runtime costs time. Returns the
 * client's `X-Forwarded-For`.
 */
function removeUnwanted(headers: Headers, request: SentRequest, policy: HeaderPolicy): string | null {
  const { headers: sent } = request;
  let isUpgrade = false;
  let forwardedFor: string | null = null;
  let connection: string | null = null;
  for (const name of sent.keys()) {
    if (name === FORWARDED_FOR) forwardedFor = sent.get(name);
    if (!isUnwanted(name, policy)) continue;
    if (name === 'upgrade') isUpgrade = isWebSocket(request);
    else if (name === 'connection') connection = sent.get(name);
    headers.delete(name);
  }
  removeNamed(headers, connection);
  if (isUpgrade) headers.set('Upgrade', 'websocket');
  return forwardedFor;
}

/** Headers that `Connection` names belong to one connection, too. */
export function removeNamed(headers: Headers, connection: string | null): void {
  const named = namesIn(connection);
  if (!named) return;
  for (const name of [...headers.keys()]) if (named.has(name) && name !== KEPT) headers.delete(name);
}

/** Only a GET can open a WebSocket. fetch turns other methods with this header into a GET that no rule has judged. */
const isWebSocket = ({ method, headers }: SentRequest): boolean =>
  method === 'GET' && headers.get('Upgrade')?.toLowerCase() === 'websocket';

function isUnwanted(name: string, { overrides, hidesAccess }: HeaderPolicy): boolean {
  if (name[0] === 'x') return isSpoofed(name) || (overrides === 'drop' && isOverride(name));
  return isHopByHop(name) || (hidesAccess && isAccessCredential(name));
}

/** Values of `Connection` that name no header to remove. */
const USUAL: ReadonlySet<string> = new Set(['keep-alive', 'close', 'upgrade']);

/** The headers that `Connection` names; undefined in the usual case, if there is none to remove. */
function namesIn(connection: string | null): ReadonlySet<string> | undefined {
  if (connection === null || USUAL.has(connection.toLowerCase())) return undefined;
  return new Set(connection.split(',').map((name) => name.trim().toLowerCase()));
}

const isOverride = (name: string) => isMethodOrPath(name.replaceAll('_', '-'));

/** Keeps all other cookies as the client sent them. */
function removeAccessCookie(headers: Headers): void {
  const cookies = headers.get('Cookie')?.split(';') ?? [];
  const others = cookies.filter((cookie) => cookie.split('=')[0]?.trim().toLowerCase() !== ACCESS_COOKIE);
  if (others.length === cookies.length) return;
  if (others.length === 0) headers.delete('Cookie');
  else headers.set('Cookie', others.join(';').trim());
}

/** Includes `x_weir_user`: CGI, WSGI and PHP origins treat `_` and `-` alike. */
function isSpoofed(name: string): boolean {
  if (name.startsWith('x-weir-')) return true;
  if (!name.includes('_')) return false;
  const spelled = name.replaceAll('_', '-');
  return spelled.startsWith('x-weir-') || spelled.startsWith('x-forwarded-');
}

/** Puts the client's address last. The client may have forged everything before it. */
function setForwarded(headers: Headers, request: SentRequest, path: string | null): void {
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
