// Where a request goes after its decision: an https URL, another Worker (`service:NAME`), or the zone's own origin
// (`pass`). The configuration, the admin route and the edge parse the text with this one function.
import ipaddr from 'ipaddr.js';

export type Origin =
  /** Without a slash at its end: a path is appended. */
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'service'; readonly name: string }
  | { readonly kind: 'pass' };

export interface OriginPolicy {
  /** Development: plain http, loopback and private addresses are origins, too. */
  readonly allowsPrivate: boolean;
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
  return url ? { kind: 'url', url: `${url.origin}${url.pathname}`.replace(/\/+$/, '') } : undefined;
}

/** Names of one machine or of a private network (RFC 6761, 6762, 8375; ICANN for `internal`). */
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|intranet|lan|home\.arpa)$/;

/** `hostname` comes from a parsed URL, which has normalised every spelling of an IPv4 address. */
export function isPrivateHost(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  if (name.startsWith('[')) return isPrivateAddress(name.slice(1, -1));
  if (ipaddr.IPv4.isValidFourPartDecimal(name)) return isPrivateAddress(name);
  // A single label is a name in a private network.
  return PRIVATE_NAMES.test(name) || !name.includes('.');
}

/** An address is private if the Internet does not route it. `process` unwraps IPv4 that is mapped into IPv6. */
const isPrivateAddress = (address: string) => ipaddr.process(address).range() !== 'unicast';
