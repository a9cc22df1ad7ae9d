// Parses bindings and variables once per isolate into a typed config. An error names the bad variable, never its value:
// it may be a secret.

import { isPrivateHost, type OriginPolicy, parseOrigin } from '../core/matching/origin-routes.ts';
import { type FieldError, type ObjectOf, readFields, textOfErrors } from '../core/shape.ts';
import type { ServiceBinding } from '../proxy/origins.ts';
import type { Kv } from '../rules/edge/published.ts';
import type { Webhook } from '../telemetry/alerts.ts';
import type { RecordQueue } from '../telemetry/flush.ts';
import type { Bindings } from './bindings.ts';
import {
  type Access,
  haveNamesOfTheirOwn,
  isSymmetric,
  type JwtFields,
  type NamedToken,
  type Region,
  tokenVariableOf,
  variables,
} from './variables.ts';

// Reads the origin policy from the environment: the service bindings, and whether private addresses and plain http are
// allowed.

/** A binding that answers requests: another Worker. */
export function serviceOf(env: Bindings, name: string): ServiceBinding | undefined {
  const binding: unknown = Reflect.get(env, name);
  const isFetcher = typeof binding === 'object' && binding !== null && 'fetch' in binding;
  return isFetcher && typeof binding.fetch === 'function' ? (binding as ServiceBinding) : undefined;
}

interface OriginVariables {
  readonly PRIVATE_ORIGINS?: 'allow' | 'refuse' | undefined;
  readonly PLAIN_HTTP?: 'allow' | 'refuse' | undefined;
  readonly ENVIRONMENT?: 'production' | 'development' | undefined;
}

/** Bindings that Weir itself reads do not count as services. */
export function originPolicyOf(
  { PRIVATE_ORIGINS, PLAIN_HTTP, ENVIRONMENT }: OriginVariables,
  env: Bindings,
  ownNames: object,
): OriginPolicy {
  const byDefault = ENVIRONMENT === 'development' ? 'allow' : 'refuse';
  const isService = (name: string) => !(name in ownNames) && serviceOf(env, name) !== undefined;
  return {
    allowsPrivate: (PRIVATE_ORIGINS ?? byDefault) === 'allow',
    allowsPlainHttp: (PLAIN_HTTP ?? byDefault) === 'allow',
    services: Object.keys(env).filter(isService),
  };
}

/** Undefined if Weir can use the origin, or if variables.ts reports its problem. */
export function originUrlProblem(
  text: string | undefined,
  { allowsPrivate, services }: OriginPolicy,
): string | undefined {
  const origin = parseOrigin(text ?? '');
  if (origin?.kind === 'service' && !services.includes(origin.name))
    return 'names a service binding that this Worker does not have';
  const isPrivate = origin?.kind === 'url' && isPrivateHost(new URL(origin.url).hostname);
  return isPrivate && !allowsPrivate
    ? 'is a loopback or private address; PRIVATE_ORIGINS=allow takes it outside development too'
    : undefined;
}

export type { NamedToken, Region };

export interface Config {
  readonly rulesKv: Kv;
  readonly originUrl: string;
  readonly regions: readonly [Region, ...Region[]];
  readonly databaseUrl: string;
  readonly databaseHttpEndpoint: string | undefined;
  readonly databaseCheckMinutes: number;
  /** The version of the Worker's code; undefined if Cloudflare does not provide it. */
  readonly deployment: string | undefined;
  readonly adminTokens: readonly NamedToken[];
  readonly adminAccess: Access | undefined;
  /** As `hostOf` spells it. */
  readonly adminHost: string | undefined;
  readonly isDevelopment: boolean;
  readonly deadlineMs: number;
  /** Requests a second that an isolate lets through while no region counts; 0 means no cap. */
  readonly isolateCap: number;
  /** Rules only record what they would have done, whatever is published. */
  readonly isLogOnly: boolean;
  /** How many isolates share a region, until the census knows. */
  readonly isolates: number;
  /** Whether answers carry X-Weir-Degraded. */
  readonly showsDegraded: boolean;
  readonly jwt: JwtConfig | undefined;
  /** What happens to a request with an invalid key or token: counted by IP, or answered 401. */
  readonly unverified: 'count' | 'reject';
  readonly ipv6Prefix: number;
  readonly costHeader: string;
  readonly originRateLimitHeaders: 'rename' | 'drop' | 'keep';
  readonly overrideHeaders: 'drop' | 'keep';
  readonly originTimeoutMs: number;
  /** Which origins are allowed. */
  readonly origins: OriginPolicy;
  readonly telemetry: TelemetryConfig;
}

export interface TelemetryConfig {
  readonly queue: RecordQueue | undefined;
  readonly everyMs: number;
  readonly eventsDays: number;
  readonly usageDays: number;
  readonly isHashed: boolean;
  readonly subjectsKey: string;
  readonly otlpUrl: string | undefined;
  readonly webhook: Webhook | undefined;
}

export type JwtConfig = JwtFields & { readonly secret: string | undefined };

export class ConfigError extends Error {
  readonly errors: readonly FieldError[];

  constructor(errors: readonly FieldError[]) {
    super(`Weir is not configured: ${textOfErrors(errors)}`);
    this.name = 'ConfigError';
    this.errors = errors;
  }
}

export function parseConfig(env: Bindings): Config {
  const errors: FieldError[] = [];
  const read = readFields(variables, env, '', errors);
  errors.push(...contradictionsIn(read, env, errors));
  if (errors.length > 0) throw new ConfigError(errors);
  const data = read as ObjectOf<typeof variables>;
  return {
    rulesKv: data.RULES,
    originUrl: data.ORIGIN_URL,
    regions: data.REGIONS.map((region) => withToken(region, env)) as [Region, ...Region[]],
    databaseUrl: data.DATABASE_URL,
    databaseHttpEndpoint: data.DATABASE_HTTP_ENDPOINT,
    databaseCheckMinutes: data.DATABASE_CHECK_MINUTES,
    deployment: data.CF_VERSION_METADATA?.id,
    adminTokens: adminTokensOf(data.ADMIN_TOKEN, data.ADMIN_TOKENS),
    adminAccess: data.ADMIN_ACCESS,
    adminHost: data.ADMIN_HOST,
    isDevelopment: data.ENVIRONMENT === 'development',
    deadlineMs: data.DEADLINE_MS,
    isolateCap: data.ISOLATE_CAP,
    isLogOnly: data.ENFORCEMENT === 'log',
    isolates: data.ISOLATES,
    showsDegraded: (data.DEGRADED_HEADER ?? (data.ENVIRONMENT === 'development' ? 'on' : 'off')) === 'on',
    jwt: data.JWT && { ...data.JWT, secret: data.JWT_SECRET },
    unverified: data.UNVERIFIED,
    ipv6Prefix: data.IPV6_PREFIX,
    costHeader: data.COST_HEADER.toLowerCase(),
    originRateLimitHeaders: data.ORIGIN_RATE_LIMIT_HEADERS,
    overrideHeaders: data.OVERRIDE_HEADERS,
    originTimeoutMs: data.ORIGIN_TIMEOUT_MS,
    origins: originPolicyOf(data, env, variables),
    telemetry: {
      queue: data.RECORDS,
      everyMs: data.TELEMETRY_SECONDS * 1_000,
      eventsDays: data.EVENTS_DAYS,
      usageDays: data.USAGE_DAYS,
      isHashed: data.SUBJECTS === 'hash',
      subjectsKey: data.SUBJECTS_KEY ?? data.DATABASE_URL,
      otlpUrl: data.OTLP_URL,
      webhook: webhookOf(data),
    },
  };
}

type Variables = Partial<ObjectOf<typeof variables>>;

/** Problems of variables that are valid alone but not together. */
function* contradictionsIn(
  read: Variables,
  env: Bindings,
  errors: readonly FieldError[],
): Generator<FieldError> {
  const { JWT, ADMIN_TOKEN, ADMIN_TOKENS = [], ALERT_WEBHOOK } = read;
  const policy = originPolicyOf(read, env, variables);
  const originProblem = originUrlProblem(read.ORIGIN_URL, policy);
  if (originProblem) yield { pointer: 'ORIGIN_URL', detail: originProblem };
  if (!policy.allowsPlainHttp)
    for (const pointer of plainUrlsIn(read))
      yield {
        pointer,
        detail: 'is plain http, which anybody on the way can read and change; PLAIN_HTTP=allow takes it',
      };
  // Does not report an invalid admin variable as missing, too.
  const isAdminWrong = errors.some(({ pointer }) => pointer.startsWith('ADMIN_'));
  const tokens = adminTokensOf(ADMIN_TOKEN, ADMIN_TOKENS);
  if (tokens.length === 0 && env.ADMIN_ACCESS === undefined && !isAdminWrong)
    yield { pointer: 'ADMIN_TOKEN', detail: 'is missing, and so are ADMIN_TOKENS and ADMIN_ACCESS' };
  if (JWT?.algorithms.some(isSymmetric) && env.JWT_SECRET === undefined)
    yield { pointer: 'JWT_SECRET', detail: 'is missing: JWT.algorithms are those of a shared secret' };
  if (ALERT_WEBHOOK !== undefined && env.ALERT_WEBHOOK_SECRET === undefined)
    yield { pointer: 'ALERT_WEBHOOK_SECRET', detail: 'is missing: it signs what ALERT_WEBHOOK is told' };
  for (const region of read.REGIONS ?? [])
    if (withToken(region, env).token === '')
      yield {
        pointer: tokenVariableOf(region),
        detail: `is missing, and so is the token of "${region.name}" in REGIONS`,
      };
  if (!haveNamesOfTheirOwn(tokens))
    yield { pointer: 'ADMIN_TOKENS', detail: 'has two tokens of one name (ADMIN_TOKEN is named admin)' };
}

/** The variables, or their fields, whose URL is not encrypted. */
function* plainUrlsIn(read: Variables): Generator<string> {
  const named: [string, string | undefined][] = [
    ['ORIGIN_URL', read.ORIGIN_URL],
    ['DATABASE_HTTP_ENDPOINT', read.DATABASE_HTTP_ENDPOINT],
    ['JWT/jwksUrl', read.JWT?.jwksUrl],
    ['ADMIN_ACCESS/teamDomain', read.ADMIN_ACCESS?.teamDomain],
    ['OTLP_URL', read.OTLP_URL],
    ['ALERT_WEBHOOK', read.ALERT_WEBHOOK],
  ];
  for (const [i, { url }] of (read.REGIONS ?? []).entries()) named.push([`REGIONS/${i}/url`, url]);
  for (const [name, url = ''] of named) if (/^http:/i.test(url)) yield name;
}

/** The region with its token; an empty one if there is none. */
function withToken<R extends { readonly name: string; readonly token?: string | undefined }>(
  region: R,
  env: Bindings,
) {
  const secret: unknown = env[tokenVariableOf(region) as keyof Bindings];
  return { ...region, token: region.token ?? (typeof secret === 'string' ? secret : '') };
}

const webhookOf = ({ ALERT_WEBHOOK: url, ALERT_WEBHOOK_SECRET: secret }: ObjectOf<typeof variables>) =>
  url !== undefined && secret !== undefined ? { url, secret } : undefined;

/** ADMIN_TOKEN is the short form for a single token. */
function adminTokensOf(single: string | undefined, several: readonly NamedToken[] = []): NamedToken[] {
  const tokens: NamedToken[] = [...several];
  if (single !== undefined) tokens.push({ name: 'admin', token: single, role: 'admin' });
  return tokens;
}
