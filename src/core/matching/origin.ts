// Where a request goes after its decision: an https URL, another Worker (`service:NAME`), or the zone's own origin
// (`pass`). The configuration, the admin route and the edge parse the text with this one function.
import ipaddr from 'ipaddr.js';

export type Origin =
  /** Without a slash at its end: a path is appended. */
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'service'; readonly name: string }
  | { readonly kind: 'pass' };

export interface OriginPolicy {
  /** Development: loopback and private addresses are origins, too. */
  readonly allowsPrivate: boolean;
  readonly allowsPlainHttp: boolean;
  /** The service bindings that this Worker has. */
  readonly services: readonly string[];
}

const SERVICE = /^service:([A-Za-z_]\w{0,63})$/;

/** Undefined if the text is none of the three. */
export function parseOrigin(text: string): Origin | undefined {
  if (text === 'pass') return { kind: 'pass' };
  const name = SERVICE.exec(text)?.[1];
  if (name !== undefined) return { kind: 'service', name };
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null;
  return url ? { kind: 'url', url: `${url.origin}${url.pathname}`.replace(/(?<!\/)\/+$/, '') } : undefined;
}

/** Names of one machine or of a private network (RFC 6761, 6762, 8375; ICANN for `internal`). */
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|intranet|lan|home\.arpa)$/;

/** Dots at the end of a name do not change it for most servers. Without a pattern, which would take quadratic time. */
export function withoutDots(host: string): string {
  let end = host.length;
  while (host[end - 1] === '.') end -= 1;
  return end === host.length ? host : host.slice(0, end);
}

/** `hostname` comes from a parsed URL, which has normalised every spelling of an IPv4 address. */
export function isPrivateHost(hostname: string): boolean {
  const name = withoutDots(hostname);
  if (name.startsWith('[')) return isPrivateAddress(name.slice(1, -1));
  if (ipaddr.IPv4.isValidFourPartDecimal(name)) return isPrivateAddress(name);
  // A single label is a name in a private network.
  return PRIVATE_NAMES.test(name) || !name.includes('.');
}

/**
 * An address is private unless the Internet routes it. Of IPv6 that is 2000::/3 without its special ranges, so every
 * range that holds IPv4 inside (compatible, translated, 6to4, Teredo, NAT64) is private, too. `process` unwraps only
 * IPv4 that is mapped into IPv6.
 */
function isPrivateAddress(text: string): boolean {
  const address = ipaddr.process(text);
  const isRouted = address instanceof ipaddr.IPv4 || ((address.parts[0] ?? 0) & 0xe000) === 0x2000;
  return !isRouted || address.range() !== 'unicast';
}
