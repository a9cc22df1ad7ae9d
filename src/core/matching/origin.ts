// Where a request goes after its decision: an https URL, another Worker (`service:NAME`), or the zone's own origin
// (`pass`). One reading of the text for the configuration, the admin route and the edge.
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

/** Undefined if it is none of the three. */
export function parseOrigin(text: string): Origin | undefined {
  if (text === 'pass') return { kind: 'pass' };
  const name = SERVICE.exec(text)?.[1];
  if (name !== undefined) return { kind: 'service', name };
  const url = /^https?:\/\//i.test(text) ? URL.parse(text) : null;
  return url ? { kind: 'url', url: `${url.origin}${url.pathname}`.replace(/\/+$/, '') } : undefined;
}

/** Names of one machine, or of somebody's own network (RFC 6761, 6762, 8375; ICANN for `internal`). */
const PRIVATE_NAMES = /(^|\.)(localhost|local|internal|intranet|lan|home\.arpa)$/;

/** `hostname` is that of a URL: there, every spelling of an IPv4 address has become the usual one. */
export function isPrivateHost(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  if (name.startsWith('[')) return isPrivateAddress(name.slice(1, -1));
  if (ipaddr.IPv4.isValidFourPartDecimal(name)) return isPrivateAddress(name);
  // One label: a name in somebody's own network.
  return PRIVATE_NAMES.test(name) || !name.includes('.');
}

/** All but the addresses that the Internet routes: `process` looks into IPv4 that is mapped into IPv6. */
const isPrivateAddress = (address: string) => ipaddr.process(address).range() !== 'unicast';
