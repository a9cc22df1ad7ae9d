// All bindings, variables and secrets of Weir, each declared once: its comment is its line in docs/operations.md
// (local/variable-table.ts), and its shape says how it is read, what is allowed, and its default. The types of the
// bindings and of the config follow from this list. A comment that begins with "Secret." names a secret.
import {
  hostOf,
  type OriginPolicy,
  originProblemHere,
  PLAIN_HTTP_PROBLEM,
  parseOrigin,
  type ServiceBinding,
} from '../core/matching/origin-routes.ts';
import { ENFORCEMENTS } from '../core/matching/snapshot.ts';
import { isServesCode } from '../core/regions/nearest.ts';
import {
  type DefaultShape,
  describeValue,
  type Fields,
  flag,
  json,
  kindOf,
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
import {
  DEFAULT_KEY_HEADERS,
  parseKeyPlaces,
  parseSourceHeaders,
  WHAT_ARE_KEY_PLACES,
  WHAT_ARE_SOURCE_HEADERS,
} from '../http/credentials.ts';
import type { Kv } from '../rules/edge/published.ts';
import type { RecordQueue } from '../telemetry/flush.ts';

type Env = Readonly<Record<string, unknown>>;
export type Variables = ReturnType<typeof variablesOf>;

/** The variables as this environment may set them: some depend on others. */
export function variablesOf(given: object, { needsAdmin = false } = {}) {
  const env = given as Env;
  const isDevelopment = env['ENVIRONMENT'] === 'development';
  const inDevelopment = <T>(there: T, elsewhere: T) => (isDevelopment ? there : elsewhere);
  const allowOrRefuse = withDefault(oneOf(['allow', 'refuse']), inDevelopment('allow', 'refuse'));
  const allows = (name: string) => allowOrRefuse(env[name], name, []) === 'allow';
  const allowsPlainHttp = allows('PLAIN_HTTP');
  const webUrl = allowsPlainHttp ? 'an http or https URL' : 'an https URL';
  const httpUrl = (allowed = webUrl) =>
    refine(url(HTTP, allowed), (value) => allowsPlainHttp || !/^http:/i.test(value), PLAIN_HTTP_PROBLEM);
  const regions = regionsShape(env, httpUrl());
  const jwt = jwtShape(httpUrl());
  const adminTokens = adminTokensShape(env);

  /** What every Weir reads, also one with rules in code. */
  const core = {
    /** Secret. JSON list of regions, [above](#configuration). Without tokens it is no secret */
    REGIONS: json(regions),
    /** In development, answers carry `X-Weir-Rules-Version`, and a request can choose its region with `X-Weir-Region` */
    ENVIRONMENT: withDefault(oneOf(['production', 'development']), 'production'),
    /**
     * Milliseconds for one decision, from the look-up of the caller to the answer of the last region asked. After that the isolate
     * decides by itself
     */
    DEADLINE_MS: withDefault(wholeNumber(1, 99_999), 250),
    /**
     * `log`: no rule denies; all rules only log what they would have denied, whatever is published ([one
     * switch](rules.md#one-switch-for-all-rules))
     */
    ENFORCEMENT: withDefault(oneOf(ENFORCEMENTS), 'on'),
    /** Requests a second that one isolate lets through while no region counts them; 0 means no cap */
    ISOLATE_CAP: withDefault(wholeNumber(0, 1_000_000), 1_000),
    /**
     * The number of isolates that an isolate assumes for a region, until that region reports the real number
     * ([below](#when-redis-does-not-answer))
     */
    ISOLATES: withDefault(wholeNumber(1, 1_000_000), 10),
    /** Whether answers carry `X-Weir-Degraded` and `X-Weir-Fallback` */
    DEGRADED_HEADER: withDefault(oneOf(['on', 'off']), inDevelopment('on', 'off')),
    /**
     * How users' tokens are verified: `{"jwksUrl":"https://…/jwks.json","issuer":"…","audience":"…"}`; also `algorithms`
     * (`["RS256"]`), `userClaim` (`sub`), `tierClaim`, `tenantClaim`. Without it, Weir reads no tokens
     */
    JWT: optional(jwt),
    /** Secret. For the algorithms `HS256` and `HS512` of `JWT` */
    JWT_SECRET: neededIf(
      env['JWT'] !== undefined && jwt(env['JWT'], '', [])?.algorithms.some(isSymmetric),
      textFrom(32),
      ': JWT.algorithms are those of a shared secret',
    ),
    /** Where API keys stand in a request, in this order ([callers](callers.md#where-keys-stand)) */
    API_KEY_HEADERS: withDefault(
      refine(
        text,
        (places) => parseKeyPlaces(places) !== undefined,
        (places) => `must be ${WHAT_ARE_KEY_PLACES}, not ${kindOf(places)}`,
      ),
      DEFAULT_KEY_HEADERS,
    ),
    /** A request with an invalid key or token counts against the IP; `reject` answers 401 */
    UNVERIFIED: withDefault(oneOf(['count', 'reject']), 'count'),
    /** IPv6 addresses count by this prefix, in bits */
    IPV6_PREFIX: withDefault(wholeNumber(32, 128), 64),
    /** The response header in which the origin names the real cost of a request */
    COST_HEADER: withDefault(matching(/^[A-Za-z0-9-]{1,64}$/, 'the name of a header'), 'X-Weir-Cost'),
    /** What becomes of the origin's own `X-RateLimit-*` and `RateLimit*`; `rename` makes them `X-Origin-RateLimit-*` */
    ORIGIN_RATE_LIMIT_HEADERS: withDefault(oneOf(['rename', 'drop', 'keep']), 'rename'),
    /**
     * Whether URLs may be plain `http`: `ORIGIN_URL`, the origins of routes, `REGIONS`, `DATABASE_HTTP_ENDPOINT`, `jwksUrl`,
     * `teamDomain`, `OTLP_URL` and `ALERT_WEBHOOK`. Whoever is on the way can read tokens there, and change answers
     */
    PLAIN_HTTP: allowOrRefuse,
    /** Secret. The token of the admin route; the history calls it `admin`. Or set `ADMIN_TOKENS` or `ADMIN_ACCESS` */
    ADMIN_TOKEN: neededIf(
      needsAdmin &&
        env['ADMIN_ACCESS'] === undefined &&
        adminTokens(env['ADMIN_TOKENS'], '', [])?.length === 0,
      textFrom(16),
      ', and so are ADMIN_TOKENS and ADMIN_ACCESS',
    ),
    /** Secret. JSON list of further tokens ([below](#who-may-use-the-admin-route)) */
    ADMIN_TOKENS: adminTokens,
  };

  /** What Cloudflare binds if rules are in Postgres: objects, not text. */
  const bindings = {
    /** The KV namespace of compiled rules */
    RULES: kvShape,
    /** A queue for denials and usage ([below](#denials-and-usage)) */
    RECORDS: optional(queueShape),
    /** The version of the Worker, from Cloudflare. After a new one, the cron run publishes again */
    CF_VERSION_METADATA: optional(object({ id: text })),
  };

  /** Bindings that Weir itself reads do not count as services. */
  const isService = (name: string) => !(name in bindings) && serviceOf(env, name) !== undefined;
  const origins: OriginPolicy = {
    allowsPrivate: allows('PRIVATE_ORIGINS'),
    allowsPlainHttp,
    services: Object.keys(env).filter(isService),
  };
  const problemHere = (origin: string) => originProblemHere(origin, origins);

  /** What Weir reads if rules are in Postgres. */
  const deployment = {
    /** Secret. The connection string of Postgres */
    DATABASE_URL: url(/^postgres(ql)?:/i, 'a postgres:// URL'),
    /** A server that speaks Neon's HTTP protocol, if it is not Neon itself */
    DATABASE_HTTP_ENDPOINT: optional(httpUrl()),
    /** Every how many minutes the cron run asks Postgres for changes ([cost](cost.md#letting-postgres-sleep)) */
    DATABASE_CHECK_MINUTES: withDefault(wholeNumber(1, 1_440), 1),
    /**
     * The host that alone answers the page, the admin route and metrics, and forwards nothing ([a host of its
     * own](page.md#a-host-of-its-own))
     */
    ADMIN_HOST: optional(hostShape),
    /** Cloudflare Access in front of the admin route, as JSON ([below](#who-may-use-the-admin-route)) */
    ADMIN_ACCESS: optional(
      json(
        strictObject({
          teamDomain: httpUrl('https://TEAM.cloudflareaccess.com'),
          audience: textFrom(1),
          admins: withDefault(listOf(text), []),
        }),
      ),
    ),
    /**
     * Your own authentication, which decides who calls instead of Weir's keys and `JWT` ([callers](callers.md#your-own-authentication))
     */
    IDENTITY: optional(identityShape(env, { problemHere, webUrl })),
    /** The headers that it gets; without a list, those of `API_KEY_HEADERS`, and `Authorization` */
    IDENTITY_HEADERS: optional(
      refine(
        text,
        (headers) => parseSourceHeaders(headers) !== undefined,
        (headers) => `must be ${WHAT_ARE_SOURCE_HEADERS}, not ${kindOf(headers)}`,
      ),
    ),
    /** Whether `ORIGIN_URL` and [routes](routes.md) may lead to loopback and private addresses */
    PRIVATE_ORIGINS: allowOrRefuse,
    /**
     * Within how many seconds an isolate flushes what it has counted; less than 1 to try things out
     */
    TELEMETRY_SECONDS: withDefault(
      transform(matching(/^(?:0\.[1-9]|1?[1-9]|10|2[0-5])$/, '1 to 25, or 0.1 to 0.9'), Number),
      25,
    ),
    /** How many days denials are kept */
    EVENTS_DAYS: withDefault(wholeNumber(1, 3_650), 30),
    /** How many days usage is kept */
    USAGE_DAYS: withDefault(wholeNumber(1, 3_650), 400),
    /** `hash` stores IP addresses and users as keyed hashes */
    SUBJECTS: withDefault(oneOf(['plain', 'hash']), 'plain'),
    /** Secret. The key of these hashes. Without it, Weir derives one from `DATABASE_URL` */
    SUBJECTS_KEY: optional(textFrom(16)),
    /** Where the cron run pushes metrics, as OTLP/HTTP JSON: the whole URL, such as `https://…/v1/metrics` */
    OTLP_URL: optional(httpUrl()),
    /** A URL that gets a message when a [threshold](#thresholds) is reached */
    ALERT_WEBHOOK: optional(httpUrl()),
    /** Secret. Signs the messages to `ALERT_WEBHOOK` */
    ALERT_WEBHOOK_SECRET: neededIf(
      env['ALERT_WEBHOOK'] !== undefined,
      matching(WEBHOOK_SECRET, 'whsec_ and 24 to 64 bytes in base64', kindOf),
      ': it signs the messages to ALERT_WEBHOOK',
    ),
  };

  /** What Weir reads if it forwards requests itself. */
  const forwarding = {
    /** The API that Weir stands in front of: its URL, another Worker, or the zone's own origin ([routes](routes.md)) */
    ORIGIN_URL: refine(
      refine(
        text,
        (origin) => parseOrigin(origin) !== undefined,
        (origin) => `must be ${webUrl}, service:NAME or pass, not ${kindOf(origin)}`,
      ),
      (origin) => problemHere(origin) === undefined,
      (origin) => problemHere(origin) ?? '',
    ),
    /** How many milliseconds the origin may take to send its response headers, once it has the whole request */
    ORIGIN_TIMEOUT_MS: withDefault(wholeNumber(1, 900_000), 100_000),
    /**
     * What Weir does with headers that ask the origin to treat the request as a different one, which no rule has judged:
     * `X-HTTP-Method-Override`, `X-Original-URL`, `X-Forwarded-Uri` and [others](routes.md#headers-that-the-origin-gets).
     * `keep` passes them on
     */
    OVERRIDE_HEADERS: withDefault(oneOf(['drop', 'keep']), 'drop'),
  };

  return { core, bindings, deployment, forwarding, origins, regions };
}

const HTTP = /^https?:\/\//i;
const WEBHOOK_SECRET = /^whsec_(?:[A-Za-z0-9+/]{4}){8,21}(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
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
const isSymmetric = (algorithm: string) => algorithm.startsWith('HS');

function wholeNumber(from: number, to: number): Shape<number> {
  const isSuch = (digits: string) =>
    /^\d{1,9}$/.test(digits) && Number(digits) >= from && Number(digits) <= to;
  const refused = (value: string) =>
    `must be a whole number from ${from} to ${to}, not ${describeValue(value)}`;
  return transform(refine(text, isSuch, refused), Number);
}

const neededIf =
  <T>(isNeeded: boolean | undefined, shape: Shape<T>, why: string): Shape<T | undefined> =>
  (value, at, errors) => {
    if (value !== undefined) return shape(value, at, errors);
    return isNeeded ? refuse(at, `is missing${why}`, errors) : undefined;
  };

const kvShape: Shape<Kv> = (value, at, errors) => {
  if (typeof value === 'object' && value !== null) return value as Kv;
  return refuse(
    at,
    value === undefined ? 'is missing' : `must be a KV binding, not ${kindOf(value)}`,
    errors,
  );
};

const queueShape: Shape<RecordQueue> = (value, at, errors) => {
  if (typeof value === 'object' && value !== null && 'send' in value) return value as RecordQueue;
  return refuse(at, `must be a queue binding, not ${kindOf(value)}`, errors);
};

/** A binding that answers requests: another Worker. */
export function serviceOf(env: object, name: string): ServiceBinding | undefined {
  const bound: unknown = Reflect.get(env, name);
  const isFetcher = typeof bound === 'object' && bound !== null && 'fetch' in bound;
  return isFetcher && typeof bound.fetch === 'function' ? (bound as ServiceBinding) : undefined;
}

/** The URL parser writes the name as the runtime writes that of a request: in lower case, international names encoded. */
const hostShape: Shape<string> = (value, at, errors) => {
  const written = typeof value === 'string' && /^[^\s/?#@:\\%]{1,254}$/.test(value) ? `https://${value}` : '';
  const host = URL.canParse(written) ? hostOf(new URL(written).href) : '';
  const allowed = 'a host name such as weir-admin.example.com, without scheme, port or path';
  return host === '' ? refuse(at, `must be ${allowed}, not ${describeValue(value)}`, errors) : host;
};

/** Also checks what REGIONS has in code. The location of a single region does not matter. */
function regionsShape(env: Env, httpUrl: Shape<string>) {
  const latitude = numberFrom(-90, 90);
  const longitude = numberFrom(-180, 180);
  const fields = {
    /** `main` if left out. Several regions need names of their own. */
    name: withDefault(matching(/^[a-z0-9-]{1,32}$/, '1 to 32 of a-z, 0-9 and -'), 'main'),
    url: httpUrl,
    /** Undefined: the token is in a secret of its own (see `tokenVariableOf`). */
    token: optional(textFrom(1)),
    /** The weight of the region when limits are split; 0: it has no part of them. */
    share: withDefault(numberFrom(0), 1),
    /** A Redis Cluster: Weir makes one call for each subject, because a script can touch only one slot. */
    cluster: withDefault(flag, false),
    /** The location. Required if there are several regions. */
    latitude,
    longitude,
    /** Requests that the region serves at any distance. */
    serves: optional(
      listOf(refine(text, isServesCode, 'must be such as colo:FRA, country:DE or continent:EU')),
    ),
  };
  const placed = strictObject(fields);
  const single = strictObject({
    ...fields,
    latitude: withDefault(latitude, 0),
    longitude: withDefault(longitude, 0),
  });
  const withToken =
    (shape: typeof placed): Shape<Shaped<typeof placed> & { readonly token: string }> =>
    (value, at, errors) => {
      const read = shape(value, at, errors);
      const variable = read && tokenVariableOf(read);
      const token = read?.token ?? (variable && env[variable]);
      if (read && typeof token === 'string' && token !== '') return { ...read, token };
      return read && refuse(`${variable}`, `is missing, and so is ${at}/token`, errors);
    };
  type Region = Shaped<ReturnType<typeof withToken>>;
  const list: Shape<readonly [Region, ...Region[]]> = (value, at, errors) => {
    const region = withToken(Array.isArray(value) && value.length === 1 ? single : placed);
    return listOf(region, 1)(value, at, errors) as [Region, ...Region[]] | undefined;
  };
  return refine(
    refine(list, haveNamesOfTheirOwn, 'has two regions of one name'),
    (regions) => regions.some(({ share }) => share !== 0),
    'must have at least one region with a share above 0',
  );
}

/** The secret with the token of a region, if REGIONS has none for it: `REDIS_TOKEN_US` for `us`. */
const tokenVariableOf = ({ name }: { readonly name: string }): string =>
  `REDIS_TOKEN_${name.toUpperCase().replaceAll('-', '_')}`;

function jwtShape(httpUrl: Shape<string>) {
  const fields = strictObject({
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
  const withKeys: typeof fields = (value, at, errors) => {
    const read = fields(value, at, errors);
    const isWithoutKeys = read && !read.algorithms.some(isSymmetric) && read.jwksUrl === undefined;
    return isWithoutKeys ? refuse(`${at}/jwksUrl`, 'is missing', errors) : read;
  };
  return json(withKeys);
}

interface OriginTools {
  readonly problemHere: (origin: string) => string | undefined;
  /** Which URLs are allowed. */
  readonly webUrl: string;
}

/** Beside JWT, nobody could say whose word on a token counts. */
function identityShape(env: Env, { problemHere, webUrl }: OriginTools): Shape<string> {
  const isSource = (value: string) => ['url', 'service'].includes(parseOrigin(value)?.kind ?? '');
  const source = refine(text, isSource, (value) => `must be ${webUrl} or service:NAME, not ${kindOf(value)}`);
  const allowed = refine(
    source,
    (value) => problemHere(value) === undefined,
    (value) => problemHere(value) ?? '',
  );
  return refine(allowed, () => env['JWT'] === undefined, 'cannot go with JWT: it decides about tokens, too');
}

/** All tokens, ADMIN_TOKEN among them. */
function adminTokensShape(env: Env) {
  const token = strictObject({
    name: matching(/^[\w.@ -]{1,64}$/, '1 to 64 letters, digits and any of _ . @ - or space'),
    token: textFrom(16),
    role: withDefault(oneOf(['admin', 'read', 'check']), 'admin'),
  });
  const { ADMIN_TOKEN: single } = env;
  const own: Shaped<typeof token>[] =
    typeof single === 'string' ? [{ name: 'admin', token: single, role: 'admin' }] : [];
  const all = transform(json(listOf(token)), (tokens) => [...tokens, ...own]);
  const problem = 'has two tokens of one name (ADMIN_TOKEN is named admin)';
  return withDefault(refine(all, haveNamesOfTheirOwn, problem), own);
}

const haveNamesOfTheirOwn = (list: readonly { readonly name: string }[]): boolean =>
  new Set(list.map(({ name }) => name)).size === list.length;

type Optional<V extends Fields> = {
  [N in keyof V]: V[N] extends DefaultShape<unknown> ? N : undefined extends Shaped<V[N]> ? N : never;
}[keyof V];
type Texts<V extends Fields> = { readonly [N in keyof Omit<V, Optional<V>>]: string } & {
  readonly [N in keyof Pick<V, Optional<V>>]?: string;
};
type Objects<V extends Fields> = { readonly [N in keyof Omit<V, Optional<V>>]: Shaped<V[N]> } & {
  readonly [N in keyof Pick<V, Optional<V>>]?: Exclude<Shaped<V[N]>, undefined>;
};

interface RegionTokens {
  /** Secret. The token of one region that has none in REGIONS, such as `REDIS_TOKEN_US_EAST` for `us-east`. */
  readonly [token: `REDIS_TOKEN_${string}`]: string;
}

/** All bindings, variables and secrets of a Worker with Weir inside it. */
export type LibraryBindings = Texts<Variables['core']> &
  Objects<Variables['bindings']> &
  Texts<Variables['deployment']> &
  RegionTokens;
/** All bindings, variables and secrets of Weir's own Worker. */
export type Bindings = LibraryBindings & Texts<Variables['forwarding']>;
