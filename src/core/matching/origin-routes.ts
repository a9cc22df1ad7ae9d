// All routes, compiled. A look-up visits each label of the host and each segment of the path, however many routes there
// are.

import ipaddr from 'ipaddr.js';
import { getOrSet } from './conditions.ts';
import { matchSegment } from './path.ts';
import { createRouteTrie, parseResource, type RouteTrie } from './resource.ts';

// Routes: which origin a request goes to, by its host and the beginning of its path.

export interface OriginRoute {
  readonly id: string;
  readonly name: string;
  /** `api.example.com`, `*.example.com` (any name below it), or `*`. */
  readonly host: string;
  /** In its canonical form: `/`, or segments without a slash at the end. */
  readonly prefix: string;
  readonly origin: string;
  /** The part of the path that the origin does not get: `prefix`, or its beginning. */
  readonly stripPrefix: string | null;
  /** How long the origin's headers may take; null: as configured. */
  readonly timeoutMs: number | null;
  /** The Host header that the origin gets; null: the host of its URL. */
  readonly hostHeader: string | null;
  /** Added to each request. */
  readonly headers: Readonly<Record<string, string>>;
}

export const ROUTE_DEFAULTS = {
  host: '*',
  prefix: '/',
  stripPrefix: null,
  timeoutMs: null,
  hostHeader: null,
  headers: {},
} as const satisfies Partial<OriginRoute>;

export const EVERY_HOST = '*';
/** `path` without its first segments, as many as `stripPrefix` has. Segments that the matcher ignores do not count. */
export function strip(path: string, stripPrefix: string): string {
  let left = stripPrefix.split('/').filter((segment) => segment !== '').length;
  let end = 0;
  while (left > 0 && end < path.length) {
    const next = path.indexOf('/', end + 1);
    const segmentEnd = next === -1 ? path.length : next;
    const seen = matchSegment(path.slice(end + 1, segmentEnd));
    if (seen.ok && seen.text !== '') left -= 1;
    end = segmentEnd;
  }
  return path.slice(end) || '/';
}

// Where a request goes after its decision: an https URL, another Worker (`service:NAME`), or the zone's own origin
// (`pass`). The configuration, the admin route and the edge parse the text with this one function.

export type Origin =
  /** Without a slash at its end: a path is appended. */
  | { readonly kind: 'url'; readonly url: string }
  | { readonly kind: 'service'; readonly name: string }
  | { readonly kind: 'pass' };

/** Another Worker, which answers without a network call. */
export interface ServiceBinding {
  fetch(to: string | Request, init: RequestInit): Promise<Response>;
}

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

export const PLAIN_HTTP_PROBLEM =
  'is plain http, which anybody on the way can read and change; PLAIN_HTTP=allow takes it';

/** Why this deployment cannot use the origin, or undefined. Weir does not resolve names: only the text counts. */
export function originProblemHere(
  text: string,
  { allowsPrivate, allowsPlainHttp, services }: OriginPolicy,
): string | undefined {
  const origin = parseOrigin(text);
  if (origin?.kind === 'service' && !services.includes(origin.name))
    return `names a service binding that this Worker does not have; it has ${services.join(', ') || 'none'}`;
  if (origin?.kind !== 'url') return undefined;
  if (!allowsPrivate && isPrivateHost(new URL(origin.url).hostname))
    return 'is a loopback or private address, which Weir allows only in development (PRIVATE_ORIGINS)';
  return allowsPlainHttp || origin.url.startsWith('https:') ? undefined : PLAIN_HTTP_PROBLEM;
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
function isPrivateHost(hostname: string): boolean {
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

export interface OriginRoutes {
  readonly all: readonly OriginRoute[];
  /**
   * The route of a request: that of its own host, else of the longest `*.` above it, else of every host; among these,
   * the longest prefix. A host without a matching prefix is skipped.
   */
  find(host: string, matchPath: string): OriginRoute | undefined;
}

/** Longer than any name that DNS knows. */
const MAX_HOST = 253;

/** Undefined if there are no routes. Paths are found as those of rules are. */
export function compileOriginRoutes(routes: readonly OriginRoute[] = []): OriginRoutes | undefined {
  if (routes.length === 0) return undefined;
  const byHost = new Map<string, RouteTrie<OriginRoute>>();
  for (const route of routes) {
    const parsed = parseResource(`${route.prefix === '/' ? '' : route.prefix}/*`);
    if (parsed.ok) getOrSet(byHost, route.host, createRouteTrie<OriginRoute>).at(parsed, () => route);
  }
  const hasHosts = byHost.size > (byHost.has(EVERY_HOST) ? 1 : 0);
  return {
    all: routes,
    find(host, matchPath) {
      const longestAt = (name: string) => byHost.get(name)?.find(matchPath).at(-1);
      return (hasHosts ? ofHost(host, longestAt) : undefined) ?? longestAt(EVERY_HOST);
    },
  };
}

/** Of the host itself, or else of the longest `*.` above it. */
function ofHost(host: string, longestAt: (name: string) => OriginRoute | undefined): OriginRoute | undefined {
  if (host.length > MAX_HOST) return undefined;
  let found = longestAt(host);
  for (let dot = host.indexOf('.'); dot !== -1 && !found; dot = host.indexOf('.', dot + 1))
    found = longestAt(`*${host.slice(dot)}`);
  return found;
}

/** The host of a URL as the runtime writes it: without user and port, in lower case, without dots at its end. */
export function hostOf(url: string): string {
  const [, host = ''] = /^[^:]*:\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^/?#:]*)/.exec(url) ?? [];
  return withoutDots(host.toLowerCase());
}
