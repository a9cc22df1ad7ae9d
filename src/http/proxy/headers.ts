// Headers on their way through: what belongs to one connection stays there, and the origin can believe what Weir says.

export interface ForwardedHeaders {
  readonly isWebSocket: boolean;
  /** Who the caller is, as Weir has verified it. */
  readonly identity?: Readonly<Record<string, string>> | undefined;
}

/**
 * These belong to one connection (RFC 9110, 7.6.1), whether or not `Connection` names them. `Expect` is among them
 * because nobody could pass the 100 on: the Workers runtime takes it for the answer.
 */
const HOP_BY_HOP = [
  'Connection',
  'Expect',
  'Keep-Alive',
  'Proxy-Authenticate',
  'Proxy-Authorization',
  'Proxy-Connection',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
];

export function toOriginHeaders(request: Request, { isWebSocket, identity }: ForwardedHeaders): Headers {
  const headers = new Headers(request.headers);
  const upgrade = headers.get('Upgrade');
  removeHopByHop(headers);
  if (isWebSocket && upgrade !== null) headers.set('Upgrade', upgrade);
  removeSpoofed(headers);
  setForwarded(headers, request);
  for (const [name, value] of Object.entries(identity ?? {})) headers.set(name, value);
  return headers;
}

export function toClientHeaders(answer: Headers): Headers {
  const headers = new Headers(answer);
  removeHopByHop(headers);
  return headers;
}

function removeHopByHop(headers: Headers): void {
  const named = headers.get('Connection')?.split(',') ?? [];
  for (const name of named) if (/^[\w!#$%&'*+.^`|~-]+$/.test(name.trim())) headers.delete(name.trim());
  for (const name of HOP_BY_HOP) headers.delete(name);
}

/** `X_Weir_User` too: CGI, WSGI and PHP origins take `_` and `-` for the same. */
function removeSpoofed(headers: Headers): void {
  for (const name of [...headers.keys()]) {
    const spelled = name.toLowerCase().replaceAll('_', '-');
    const isTrusted = spelled.startsWith('x-weir-');
    const isOtherSpelling = spelled.startsWith('x-forwarded-') && name.includes('_');
    if (isTrusted || isOtherSpelling) headers.delete(name);
  }
}

/** The client's address comes last: whatever is before it, the client may have made up. */
function setForwarded(headers: Headers, { url }: Request): void {
  const address = headers.get('CF-Connecting-IP');
  const path = headers.get('X-Forwarded-For');
  // Cloudflare has appended it already where it stands in front.
  const isAppended = address === null || path?.split(',').at(-1)?.trim() === address;
  if (!isAppended) headers.set('X-Forwarded-For', path ? `${path}, ${address}` : address);
  const { protocol, host } = new URL(url);
  headers.set('X-Forwarded-Proto', protocol.slice(0, -1));
  headers.set('X-Forwarded-Host', host);
  headers.delete('Host');
}
