// The schema of a route, derived from its table: for the admin route, and for every row that is published.
import { createInsertSchema } from 'drizzle-zod';
import * as z from 'zod';
import type { OriginPolicy } from '../../core/matching/origin.ts';
import { originProblem, originProblemHere } from '../../core/matching/origin-problems.ts';
import type { OriginRoute } from '../../core/matching/origin-route.ts';
import {
  headerProblem,
  hostProblem,
  isOwnHost,
  isPrefixOf,
  normalizeHost,
  parsePrefix,
} from '../../core/matching/route-fields.ts';
import { plainText } from './plain-text.ts';
import { LONGEST_TIMEOUT_MS, type RouteRow, routes } from './route-table.ts';
import type { RejectedRow } from './rule-schema.ts';

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
