// The schema of a route, derived from its table: for the admin route, and for every row that is published.

import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import {
  EVERY_HOST,
  type OriginPolicy,
  type OriginRoute,
  originProblemHere,
  parseOrigin,
  withoutDots,
} from '../core/matching/origin-routes.ts';
import { canonicalPath } from '../core/matching/path.ts';
import { isOwnPath, OWN_PREFIX } from '../core/matching/resource.ts';
import { LONGEST_TIMEOUT_MS, type RouteRow, routes } from '../rules/tables/tables.ts';
import { plainText } from './bodies.ts';
import type { RejectedRow } from './rule-schema.ts';

// Validates and normalises the fields of a route. The request path does not need this.

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

// Why an origin is refused, always or in this deployment. The admin route and the publisher ask, not the request path.

const FORMS = 'must be an https URL, service:NAME or pass';

/** Why a route cannot have this origin, whatever the environment; or undefined. */
export function originProblem(text: string): string | undefined {
  const origin = parseOrigin(text);
  if (origin?.kind !== 'url') return origin ? undefined : FORMS;
  const { username, password, search, hash } = new URL(text);
  if (username || password) return 'must have no user name and no password: fetch refuses them';
  return search || hash ? 'must have no ? and no #: path and query come from the request' : undefined;
}

const MAX_HEADERS = 20;

const refused =
  (problemOf: (text: string) => string | undefined) => (text: string, context: z.RefinementCtx) => {
    const message = problemOf(text);
    if (message) context.addIssue({ code: 'custom', message });
  };

const prefixProblem = (text: string) => {
  const parsed = parsePrefix(text);
  return parsed.ok ? undefined : parsed.problem;
};

/** The fields of a route that people write, each by itself; `checkRoute` looks at them together. */
export const routeFields = createInsertSchema(routes, {
  name: plainText(128).min(1).describe('Unique. For people.'),
  host: z
    .string()
    .max(256)
    .superRefine(refused((host) => hostProblem(normalizeHost(host))))
    .describe('A host (api.example.com), every name below one (*.example.com), or * for all.'),
  prefix: z
    .string()
    .max(1024)
    .superRefine(refused(prefixProblem))
    .describe('The beginning of the path, in whole segments: /api takes /api and /api/users, not /apis.'),
  origin: z
    .string()
    .max(2048)
    .superRefine(refused(originProblem))
    .describe(
      'An https URL; service:NAME, a service binding of this Worker; or pass, the zone’s own origin.',
    ),
  stripPrefix: z
    .string()
    .max(1024)
    .superRefine(refused(prefixProblem))
    .nullable()
    .describe('The prefix or its beginning. Weir removes it from the path that the origin gets.'),
  timeoutMs: z
    .int()
    .min(1)
    .max(LONGEST_TIMEOUT_MS)
    .nullable()
    .describe('How long the origin may take to send its headers. Null means ORIGIN_TIMEOUT_MS.'),
  hostHeader: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,253}$/, 'must be a host, without a port: that of the origin stays')
    .nullable()
    .describe('The Host header that the origin gets, a name of your zone. Null means the host of its URL.'),
  headers: z
    .record(z.string(), z.string())
    .superRefine(checkHeaders)
    .describe(
      'Added to each request. They replace headers of the same names from the client. No place for secrets.',
    ),
}).omit({ id: true, revision: true, createdAt: true, updatedAt: true });

function checkHeaders(headers: Readonly<Record<string, string>>, context: z.RefinementCtx): void {
  const names = Object.keys(headers);
  if (names.length > MAX_HEADERS)
    context.addIssue({ code: 'custom', message: `has more than ${MAX_HEADERS} headers` });
  for (const [name, value] of Object.entries(headers)) {
    const message = headerProblem(name, value);
    if (message) context.addIssue({ code: 'custom', path: [name], message });
  }
}

type Fields = z.infer<typeof routeFields>;
export type RouteFields = { readonly [Field in keyof Fields]?: Fields[Field] | undefined };

/** Reports fields that are valid alone but not together. */
export function checkRoute(route: RouteFields, context: z.core.$RefinementCtx<unknown>): void {
  const { host, prefix, origin, stripPrefix } = normalizeRoute(route);
  if (stripPrefix != null && (stripPrefix === '/' || !isPrefixOf(stripPrefix, prefix)))
    context.addIssue({
      code: 'custom',
      path: ['stripPrefix'],
      message: `must be ${prefix}, or how that begins`,
      input: stripPrefix,
    });
  if (isOwnHost({ host, origin }))
    context.addIssue({
      code: 'custom',
      path: ['origin'],
      message:
        'is the host of the route itself: requests would come back here. The zone’s own origin is pass',
      input: origin,
    });
}

/** Normalises host, prefixes and scheme. Values that cannot be parsed stay as they are. */
export function normalizeRoute<R extends RouteFields>(route: R) {
  const canonical = (text: string) => {
    const parsed = parsePrefix(text);
    return parsed.ok ? parsed.prefix : text;
  };
  const { host = '*', prefix = '/', origin = '', stripPrefix } = route;
  return {
    ...route,
    host: normalizeHost(host),
    prefix: canonical(prefix),
    origin: origin.replace(/^https?:/i, (scheme) => scheme.toLowerCase()),
    stripPrefix: stripPrefix == null ? null : canonical(stripPrefix),
  };
}

const routeRow = z.object({ ...routeFields.omit({ enabled: true }).required().shape, id: z.string() });

/** Parses rows for publication. Routes that this Worker cannot serve are put aside with the reason. */
export function parseRoutes(
  rows: readonly RouteRow[],
  policy?: OriginPolicy,
): { good: OriginRoute[]; rejected: RejectedRow[] } {
  const good: OriginRoute[] = [];
  const rejected: RejectedRow[] = [];
  for (const row of rows) {
    const parsed = routeRow.superRefine(checkRoute).safeParse(row);
    const here = parsed.success && policy ? originProblemHere(parsed.data.origin, policy) : undefined;
    const problems = parsed.success
      ? here === undefined
        ? []
        : [`origin: ${here}`]
      : parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`);
    if (parsed.success && problems.length === 0) good.push(normalizeRoute(parsed.data));
    else rejected.push({ id: row.id, name: row.name, problems });
  }
  return { good, rejected };
}
