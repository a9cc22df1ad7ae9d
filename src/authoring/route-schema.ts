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
import { PARAMETER, parseResource } from '../core/matching/resource.ts';
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

/** The path of a resource such as `/api/*` in its one spelling, or what is wrong with the resource. */
export function parsePrefix(
  resource: string,
): { readonly ok: true; readonly prefix: string } | { readonly ok: false; readonly problem: string } {
  const parsed = parseResource(resource);
  if (!parsed.ok) return parsed;
  const { segments, isPrefix } = parsed;
  if (!isPrefix || segments.includes(PARAMETER))
    return { ok: false, problem: 'must be all paths below one, such as /api/* or /*, without parameters' };
  return { ok: true, prefix: `/${segments.join('/')}` };
}

/** The same for a path, which has no star. */
const parsePath = (path: string) =>
  path.endsWith('*') ? ({ ok: false, problem: 'is a path, without *' } as const) : parsePrefix(`${path}/*`);

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

/** A refinement that reports the problem of a text. */
export const refused =
  (problemOf: (text: string) => string | undefined) => (text: string, context: z.RefinementCtx) => {
    const message = problemOf(text);
    if (message) context.addIssue({ code: 'custom', message });
  };

const MAX_HEADERS = 20;

/** A host of a rule or a route, in its one spelling. */
export const hostField = z.string().max(256).overwrite(normalizeHost).superRefine(refused(hostProblem));

const problemBy = (parse: typeof parsePrefix) => (text: string) => {
  const parsed = parse(text);
  return parsed.ok ? undefined : parsed.problem;
};

/** The fields of a route that people write, each by itself; `checkRoute` looks at them together. */
export const routeFields = createInsertSchema(routes, {
  name: plainText(128).min(1).describe('Unique. For people.'),
  host: hostField.describe('A host (api.example.com), every name below one (*.example.com), or * for all.'),
  resource: z
    .string()
    .max(1026)
    .superRefine(refused(problemBy(parsePrefix)))
    .describe('All paths below one: /api/* takes /api and /api/users, not /apis. The default is all paths.'),
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
    .superRefine(refused(problemBy(parsePath)))
    .nullable()
    .describe(
      'The path of the resource, such as /api, or its beginning. Weir removes it from the path that the origin gets.',
    ),
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
}).omit({ id: true, prefix: true, revision: true, createdAt: true, updatedAt: true });

function checkHeaders(headers: Readonly<Record<string, string>>, context: z.RefinementCtx): void {
  const names = Object.keys(headers);
  if (names.length > MAX_HEADERS)
    context.addIssue({ code: 'custom', message: `has more than ${MAX_HEADERS} headers` });
  for (const [name, value] of Object.entries(headers)) {
    const message = headerProblem(name, value);
    if (message) context.addIssue({ code: 'custom', path: [name], message });
  }
}

/** The defaults of fields that people may leave out. */
export const ROUTE_FIELD_DEFAULTS = {
  ...{ host: EVERY_HOST, resource: '/*', stripPrefix: null, timeoutMs: null, hostHeader: null },
  ...{ headers: {}, enabled: true },
};

type Fields = z.infer<typeof routeFields>;
export type RouteFields = { readonly [Field in keyof Fields]?: Fields[Field] | undefined };

/** Reports fields that are valid alone but not together. */
export function checkRoute(route: RouteFields, context: z.core.$RefinementCtx<unknown>): void {
  const { host, resource, origin, stripPrefix } = normalizeRoute(route);
  const prefix = pathOf(resource);
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

/** Normalises host, paths and scheme. Values that cannot be parsed stay as they are. */
export function normalizeRoute<R extends RouteFields>(route: R) {
  const { host = EVERY_HOST, resource = '/*', origin = '', stripPrefix } = route;
  const parsed = parsePrefix(resource);
  const stripped = stripPrefix == null ? undefined : parsePath(stripPrefix);
  return {
    ...route,
    host,
    resource: parsed.ok ? `${parsed.prefix === '/' ? '' : parsed.prefix}/*` : resource,
    origin: origin.replace(/^https?:/i, (scheme) => scheme.toLowerCase()),
    stripPrefix: stripped?.ok ? stripped.prefix : (stripPrefix ?? null),
  };
}

/** The path of a normalised resource: `/api` of `/api/*`. */
const pathOf = (resource: string) => resource.slice(0, -2) || '/';

const routeRow = z.object({ ...routeFields.omit({ enabled: true }).required().shape, id: z.string() });

const toOriginRoute = ({
  resource,
  ...route
}: ReturnType<typeof normalizeRoute<z.infer<typeof routeRow>>>) => ({
  ...route,
  prefix: pathOf(resource),
});

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
    if (parsed.success && problems.length === 0) good.push(toOriginRoute(normalizeRoute(parsed.data)));
    else rejected.push({ id: row.id, name: row.name, problems });
  }
  return { good, rejected };
}
