// The shapes of all variables and bindings. config.ts parses them and checks them together.
import { hostOf, parseOrigin } from '../core/matching/origin-routes.ts';
import { ENFORCEMENTS } from '../core/matching/snapshot.ts';
import { isServesCode } from '../core/regions/nearest.ts';
import {
  flag,
  json,
  listOf,
  matching,
  numberFrom,
  object,
  oneOf,
  optional,
  refine,
  refuse,
  type Shape,
  type Shaped,
  strictObject,
  text,
  textFrom,
  transform,
  url,
  withDefault,
} from '../core/shape.ts';
import type { Kv } from '../rules/edge/published.ts';
import type { RecordQueue } from '../telemetry/flush.ts';

const DEFAULT_DEADLINE_MS = 250;
/** Requests a second: about what one isolate can serve. */
const DEFAULT_ISOLATE_CAP = 1_000;
const DEFAULT_ISOLATES = 10;
/** As long as Cloudflare itself waits for an origin. */
const DEFAULT_ORIGIN_TIMEOUT_MS = 100_000;
const JWT_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'ES256',
  'ES384',
  'EdDSA',
  'HS256',
  'HS512',
] as const;
export const isSymmetric = (algorithm: string) => algorithm.startsWith('HS');

const HTTP = /^https?:\/\//i;
const httpUrl = url(HTTP, 'must be an http or https URL');

const region = strictObject({
  name: matching(/^[a-z0-9-]{1,32}$/, 'must be 1 to 32 of a-z, 0-9 and -'),
  url: httpUrl,
  /** Undefined: the token is in a secret of its own (see `tokenVariableOf`). */
  token: optional(textFrom(1, 'must not be empty')),
  /** 0: the region has no part of limits that are split by these shares. */
  share: numberFrom(0),
  /** A Redis Cluster: Weir makes one call for each subject, because a script can touch only one slot. */
  cluster: withDefault(flag, false),
  latitude: numberFrom(-90, 90),
  longitude: numberFrom(-180, 180),
  /** Requests that the region serves at any distance. */
  serves: optional(
    listOf(refine(text, isServesCode, 'must be such as colo:FRA, country:DE or continent:EU')),
  ),
});

const regionList = refine(
  refine(json(listOf(region, 1)), haveNamesOfTheirOwn, 'has two regions of one name'),
  (list) => list.some(({ share }) => share !== 0),
  'must have at least one region with a share above 0',
);

const token = textFrom(16, 'must have at least 16 characters');

const adminTokens = json(
  listOf(
    strictObject({
      name: matching(/^[\w.@ -]{1,64}$/, 'must be 1 to 64 letters, digits and any of _ . @ - or space'),
      token,
      role: withDefault(oneOf(['admin', 'read', 'check']), 'admin'),
    }),
  ),
);

const access = json(
  strictObject({
    teamDomain: url(HTTP, 'must be https://TEAM.cloudflareaccess.com'),
    audience: textFrom(1, 'must not be empty'),
    admins: withDefault(listOf(text), []),
  }),
);

const NO_HOST = 'must be a host name such as weir-admin.example.com, without scheme, port or path';

/** The URL parser writes the name as the runtime writes that of a request: in lower case, international names encoded. */
const adminHost: Shape<string> = (value, at, errors) => {
  const written = typeof value === 'string' && /^[^\s/?#@:\\%]{1,254}$/.test(value) ? `https://${value}` : '';
  const host = URL.canParse(written) ? hostOf(new URL(written).href) : '';
  return host === '' ? refuse(at, NO_HOST, errors) : host;
};

const jwtFields = strictObject({
  algorithms: refine(
    withDefault(listOf(oneOf(JWT_ALGORITHMS), 1), ['RS256']),
    (algorithms) => new Set(algorithms.map(isSymmetric)).size === 1,
    'must be all of HS… (JWT_SECRET) or none of them (jwksUrl)',
  ),
  jwksUrl: optional(httpUrl),
  issuer: optional(textFrom(1)),
  audience: optional(textFrom(1)),
  userClaim: withDefault(textFrom(1), 'sub'),
  tierClaim: optional(textFrom(1)),
  tenantClaim: optional(textFrom(1)),
});

const jwt: Shape<Shaped<typeof jwtFields>> = (value, at, errors) => {
  const read = json(jwtFields)(value, at, errors);
  if (read && !read.algorithms.some(isSymmetric) && read.jwksUrl === undefined)
    refuse(`${at}/jwksUrl`, 'is missing', errors);
  return read;
};

function wholeNumber(from: number, to: number, problem = `must be a whole number from ${from} to ${to}`) {
  const digits = transform(matching(/^\d{1,9}$/, problem), Number);
  return refine(digits, (value) => value >= from && value <= to, problem);
}

const kvNamespace: Shape<Kv> = (value, at, errors) => {
  if (typeof value === 'object' && value !== null) return value as Kv;
  return refuse(at, 'KV binding is missing', errors);
};

const queue: Shape<RecordQueue> = (value, at, errors) => {
  if (typeof value === 'object' && value !== null && 'send' in value) return value as RecordQueue;
  return refuse(at, 'must be a queue binding', errors);
};

/** The secret with the token of a region, if REGIONS has none for it: `REDIS_TOKEN_US` for `us`. */
export const tokenVariableOf = ({ name }: { readonly name: string }): string =>
  `REDIS_TOKEN_${name.toUpperCase().replaceAll('-', '_')}`;

/** How each variable and binding is read. */
export const variables = {
  RULES: kvNamespace,
  ORIGIN_URL: refine(
    text,
    (origin) => parseOrigin(origin) !== undefined,
    'must be an http or https URL, service:NAME or pass',
  ),
  REGIONS: regionList,
  DATABASE_URL: url(/^postgres(ql)?:/i, 'must be a postgres:// URL'),
  ADMIN_TOKEN: optional(token),
  ADMIN_TOKENS: optional(adminTokens),
  ADMIN_ACCESS: optional(access),
  ADMIN_HOST: optional(adminHost),
  ENVIRONMENT: withDefault(oneOf(['production', 'development']), 'production'),
  DEADLINE_MS: withDefault(
    wholeNumber(1, 99_999, 'must be a whole number of milliseconds from 1 to 99999'),
    DEFAULT_DEADLINE_MS,
  ),
  ISOLATE_CAP: withDefault(wholeNumber(0, 1_000_000), DEFAULT_ISOLATE_CAP),
  ENFORCEMENT: withDefault(oneOf(ENFORCEMENTS), 'on'),
  ISOLATES: withDefault(wholeNumber(1, 1_000_000), DEFAULT_ISOLATES),
  DEGRADED_HEADER: optional(oneOf(['on', 'off'])),
  DATABASE_CHECK_MINUTES: withDefault(wholeNumber(1, 1_440), 1),
  CF_VERSION_METADATA: optional(object({ id: text })),
  DATABASE_HTTP_ENDPOINT: optional(httpUrl),
  JWT: optional(jwt),
  JWT_SECRET: optional(textFrom(32, 'must have at least 32 characters')),
  UNVERIFIED: withDefault(oneOf(['count', 'reject']), 'count'),
  IPV6_PREFIX: withDefault(wholeNumber(32, 128), 64),
  COST_HEADER: withDefault(matching(/^[A-Za-z0-9-]{1,64}$/, 'must be the name of a header'), 'X-Weir-Cost'),
  ORIGIN_RATE_LIMIT_HEADERS: withDefault(oneOf(['rename', 'drop', 'keep']), 'rename'),
  OVERRIDE_HEADERS: withDefault(oneOf(['drop', 'keep']), 'drop'),
  PRIVATE_ORIGINS: optional(oneOf(['allow', 'refuse'])),
  PLAIN_HTTP: optional(oneOf(['allow', 'refuse'])),
  ORIGIN_TIMEOUT_MS: withDefault(wholeNumber(1, 900_000), DEFAULT_ORIGIN_TIMEOUT_MS),
  RECORDS: optional(queue),
  TELEMETRY_SECONDS: withDefault(
    transform(matching(/^(?:0\.[1-9]|1?[1-9]|10|2[0-5])$/, 'must be 1 to 25, or 0.1 to 0.9'), Number),
    25,
  ),
  EVENTS_DAYS: withDefault(wholeNumber(1, 3_650), 30),
  USAGE_DAYS: withDefault(wholeNumber(1, 3_650), 400),
  SUBJECTS: withDefault(oneOf(['plain', 'hash']), 'plain'),
  SUBJECTS_KEY: optional(textFrom(16, 'must have at least 16 characters')),
  OTLP_URL: optional(httpUrl),
  ALERT_WEBHOOK: optional(httpUrl),
  ALERT_WEBHOOK_SECRET: optional(
    matching(
      /^whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
      'must be whsec_ and 24 to 64 bytes in base64',
    ),
  ),
};

export type Region = Shaped<typeof region> & { readonly token: string };
export type NamedToken = Shaped<typeof adminTokens>[number];
export type Access = Shaped<typeof access>;
export type JwtFields = Shaped<typeof jwt>;

export function haveNamesOfTheirOwn(list: readonly { readonly name: string }[]): boolean {
  return new Set(list.map(({ name }) => name)).size === list.length;
}
