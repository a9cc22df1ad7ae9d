// Validates and normalises the fields of a route. The request path does not need this.
import { canonicalPath } from './canonical-path.ts';
import { parseOrigin, withoutDots } from './origin.ts';
import { EVERY_HOST, type OriginRoute } from './origin-route.ts';
import { isOwnPath, OWN_PREFIX } from './resource.ts';

const MAX_HOST = 253;
const LABEL = '[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?';
const HOST = new RegExp(`^(?:\\*\\.)?${LABEL}(?:\\.${LABEL})*$`);

/** The one spelling of a host: lower case, no dot at its end, other alphabets as URLs write them. */
export function normalizeHost(host: string): string {
  const [, wild = '', name = ''] = /^(\*\.)?(.*)$/s.exec(host.trim()) ?? [];
  // Only a plain name goes to the parser, which would read `x/y` or `x:80` as more than a host.
  const hostname = /[/?#@:\\\s*]/.test(name) ? undefined : URL.parse(`https://${name}`)?.hostname;
  return wild + withoutDots((hostname ?? name).toLowerCase());
}

/** Why a host in its one spelling is not valid, or undefined. */
export function hostProblem(host: string): string | undefined {
  if (host === EVERY_HOST || (host.length <= MAX_HOST && HOST.test(host))) return undefined;
  return 'must be a host (api.example.com), all below one (*.example.com) or *, without scheme, port and path';
}

/** The one spelling of a prefix, or what is wrong with it. */
export function parsePrefix(
  prefix: string,
): { readonly ok: true; readonly prefix: string } | { readonly ok: false; readonly problem: string } {
  if (!prefix.startsWith('/')) return { ok: false, problem: 'must start with /' };
  if (/[?#*{}]/.test(prefix))
    return { ok: false, problem: 'is the beginning of a path: it has none of ? # * { }' };
  const canonical = canonicalPath(prefix);
  if (!canonical.ok) return { ok: false, problem: canonical.reason };
  if (isOwnPath(canonical.matchPath))
    return { ok: false, problem: `is under ${OWN_PREFIX}, which is never proxied` };
  return { ok: true, prefix: canonical.matchPath };
}

export const isPrefixOf = (prefix: string, matchPath: string) =>
  prefix === '/' || matchPath === prefix || matchPath.startsWith(`${prefix}/`);

/**
 * A route whose origin is its own host sends requests back to Weir. A host under `*.` may well be an origin beside
 * Weir.
 */
export function isOwnHost({ host, origin }: Pick<OriginRoute, 'host' | 'origin'>): boolean {
  const parsed = parseOrigin(origin);
  if (parsed?.kind !== 'url') return false;
  const { hostname, port } = new URL(parsed.url);
  return port === '' && withoutDots(hostname) === host;
}

const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$/;
const HEADER_VALUE = /^[\x21-\x7e](?:[\x20-\x7e]{0,1022}[\x21-\x7e])?$/;
/** Headers of the connection or the body, headers with a field of their own, and headers of Weir and Cloudflare. */
const TAKEN_HEADER =
  /^(?:connection|content-encoding|content-length|expect|host|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|(?:x-weir|x-forwarded|cf)-.*)$/;

/** Why a route cannot add this header, or undefined. */
export function headerProblem(name: string, value: string): string | undefined {
  if (!HEADER_NAME.test(name)) return 'is not the name of a header';
  if (TAKEN_HEADER.test(name.toLowerCase().replaceAll('_', '-')))
    return name.toLowerCase() === 'host' ? 'has a field of its own: hostHeader' : 'cannot be set by a route';
  return HEADER_VALUE.test(value) ? undefined : 'must be 1 to 1024 printable ASCII characters';
}
