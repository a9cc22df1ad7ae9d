// Bindings and variables, checked once per isolate into a typed config. A bad one is named in the error,
// never its value: it may be a secret.
import type { KVNamespace } from '@cloudflare/workers-types';
import * as z from 'zod';
import type { Bindings } from './bindings.ts';
import { isServesCode } from './core/regions.ts';

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
const isSymmetric = (algorithm: string) => algorithm.startsWith('HS');

const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

const region = z.strictObject({
  name: z.string().regex(/^[a-z0-9-]{1,32}$/, 'must be 1 to 32 of a-z, 0-9 and -'),
  url: httpUrl,
  token: z.string().min(1, 'must not be empty'),
  /** 0: it has no part of any limit that is split by these shares. */
  share: z.number().min(0),
  /** A Redis Cluster: one call for each subject, because a script can touch one slot only. */
  cluster: z.boolean().default(false),
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
  /** Whom it serves whatever the distance. */
  serves: z
    .array(z.string().refine(isServesCode, 'must be such as colo:FRA, country:DE or continent:EU'))
    .optional(),
});

const jsonText = z.string().transform((text, context) => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    context.addIssue({ code: 'custom', message: 'must be JSON' });
    return z.NEVER;
  }
});

const regionList = jsonText
  .pipe(z.tuple([region], region))
  .refine(haveNamesOfTheirOwn, 'has two regions of one name')
  .refine(
    (list) => list.some(({ share }) => share !== 0),
    'must have at least one region with a share above 0',
  );

const token = z.string().min(16, 'must have at least 16 characters');

const adminTokens = jsonText.pipe(
  z.array(
    z.strictObject({
      name: z
        .string()
        .regex(/^[\w.@ -]{1,64}$/, 'must be 1 to 64 letters, digits and any of _ . @ - or space'),
      token,
      role: z.enum(['admin', 'read']).default('admin'),
    }),
  ),
);

const access = jsonText.pipe(
  z.strictObject({
    teamDomain: z.url({ protocol: /^https?$/, error: 'must be https://TEAM.cloudflareaccess.com' }),
    audience: z.string().min(1, 'must not be empty'),
    admins: z.array(z.string()).default([]),
  }),
);

const jwt = jsonText.pipe(
  z
    .strictObject({
      algorithms: z.array(z.enum(JWT_ALGORITHMS)).min(1).default(['RS256']),
      jwksUrl: httpUrl.optional(),
      issuer: z.string().min(1).optional(),
      audience: z.string().min(1).optional(),
      userClaim: z.string().min(1).default('sub'),
      tierClaim: z.string().min(1).optional(),
      tenantClaim: z.string().min(1).optional(),
    })
    .refine(({ algorithms }) => new Set(algorithms.map(isSymmetric)).size === 1, {
      path: ['algorithms'],
      error: 'must be all of HS… (JWT_SECRET) or none of them (jwksUrl)',
    })
    .refine(({ algorithms, jwksUrl }) => algorithms.some(isSymmetric) || jwksUrl !== undefined, {
      path: ['jwksUrl'],
      error: 'is missing',
    }),
);

const wholeNumber = (from: number, to: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${from} to ${to}`)
    .transform(Number)
    .refine((value) => value >= from && value <= to, `must be a whole number from ${from} to ${to}`);

const headerName = z.string().regex(/^[A-Za-z0-9-]{1,64}$/, 'must be the name of a header');

const configSchema = z
  .object({
    RULES: z.custom<KVNamespace>(
      (value) => typeof value === 'object' && value !== null,
      'KV binding is missing',
    ),
    ORIGIN_URL: httpUrl.transform((url) => url.replace(/\/+$/, '')),
    REGIONS: regionList,
    DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
    ADMIN_TOKEN: token.optional(),
    ADMIN_TOKENS: adminTokens.optional(),
    ADMIN_ACCESS: access.optional(),
    ENVIRONMENT: z.enum(['production', 'development']).default('production'),
    DEADLINE_MS: z
      .string()
      .regex(/^[1-9]\d{0,4}$/, 'must be a whole number of milliseconds from 1 to 99999')
      .transform(Number)
      .default(DEFAULT_DEADLINE_MS),
    ISOLATE_CAP: wholeNumber(0, 1_000_000).default(DEFAULT_ISOLATE_CAP),
    ISOLATES: wholeNumber(1, 1_000_000).default(DEFAULT_ISOLATES),
    DEGRADED_HEADER: z.enum(['on', 'off']).optional(),
    DATABASE_CHECK_MINUTES: wholeNumber(1, 1_440).default(1),
    CF_VERSION_METADATA: z.object({ id: z.string() }).optional(),
    DATABASE_HTTP_ENDPOINT: httpUrl.optional(),
    JWT: jwt.optional(),
    JWT_SECRET: z.string().min(32, 'must have at least 32 characters').optional(),
    UNVERIFIED: z.enum(['count', 'reject']).default('count'),
    IPV6_PREFIX: wholeNumber(32, 128).default(64),
    COST_HEADER: headerName.default('X-Weir-Cost'),
    ORIGIN_RATE_LIMIT_HEADERS: z.enum(['rename', 'drop', 'keep']).default('rename'),
    OVERRIDE_HEADERS: z.enum(['drop', 'keep']).default('drop'),
    ORIGIN_TIMEOUT_MS: wholeNumber(1, 900_000).default(DEFAULT_ORIGIN_TIMEOUT_MS),
  })
  .refine(
    (env) => Boolean(env.ADMIN_TOKEN || env.ADMIN_TOKENS?.length || env.ADMIN_ACCESS),
    // Told together with all else that is missing.
    {
      path: ['ADMIN_TOKEN'],
      error: 'is missing, and so are ADMIN_TOKENS and ADMIN_ACCESS',
      when: isAdminParsed,
    },
  )
  .refine(({ JWT, JWT_SECRET }) => !JWT?.algorithms.some(isSymmetric) || JWT_SECRET !== undefined, {
    path: ['JWT_SECRET'],
    error: 'is missing: JWT.algorithms are those of a shared secret',
  })
  .refine((env) => haveNamesOfTheirOwn(adminTokensOf(env.ADMIN_TOKEN, env.ADMIN_TOKENS)), {
    path: ['ADMIN_TOKENS'],
    error: 'has two tokens of one name (ADMIN_TOKEN is named admin)',
  });

export type Region = z.infer<typeof region>;
export type AdminToken = z.infer<typeof adminTokens>[number];

export interface Config {
  readonly rulesKv: KVNamespace;
  readonly originUrl: string;
  readonly regions: readonly [Region, ...Region[]];
  readonly databaseUrl: string;
  readonly databaseHttpEndpoint: string | undefined;
  readonly databaseCheckMinutes: number;
  /** Of the Worker's code; undefined where Cloudflare does not tell. */
  readonly deployment: string | undefined;
  readonly adminTokens: readonly AdminToken[];
  readonly adminAccess: z.infer<typeof access> | undefined;
  readonly isDevelopment: boolean;
  readonly deadlineMs: number;
  /** Requests a second that an isolate lets through while nobody counts; 0 for any number. */
  readonly isolateCap: number;
  /** How many isolates share a region, until the region has told. */
  readonly isolates: number;
  /** Whether answers say what was wrong when they were decided. */
  readonly showsDegraded: boolean;
  readonly jwt: JwtConfig | undefined;
  /** What happens to a request whose key or token is not a good one: counted by IP, or answered 401. */
  readonly unverified: 'count' | 'reject';
  readonly ipv6Prefix: number;
  readonly costHeader: string;
  readonly originRateLimitHeaders: 'rename' | 'drop' | 'keep';
  readonly overrideHeaders: 'drop' | 'keep';
  readonly originTimeoutMs: number;
}

export type JwtConfig = z.infer<typeof jwt> & { readonly secret: string | undefined };

export class ConfigError extends Error {
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`Weir is not configured: ${problems.join('; ')}`);
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

export function parseConfig(env: Bindings): Config {
  const parsed = configSchema.safeParse(env);
  if (!parsed.success) throw new ConfigError(parsed.error.issues.map(describe));
  const { data } = parsed;
  return {
    rulesKv: data.RULES,
    originUrl: data.ORIGIN_URL,
    regions: data.REGIONS,
    databaseUrl: data.DATABASE_URL,
    databaseHttpEndpoint: data.DATABASE_HTTP_ENDPOINT,
    databaseCheckMinutes: data.DATABASE_CHECK_MINUTES,
    deployment: data.CF_VERSION_METADATA?.id,
    adminTokens: adminTokensOf(data.ADMIN_TOKEN, data.ADMIN_TOKENS),
    adminAccess: data.ADMIN_ACCESS,
    isDevelopment: data.ENVIRONMENT === 'development',
    deadlineMs: data.DEADLINE_MS,
    isolateCap: data.ISOLATE_CAP,
    isolates: data.ISOLATES,
    showsDegraded: (data.DEGRADED_HEADER ?? (data.ENVIRONMENT === 'development' ? 'on' : 'off')) === 'on',
    jwt: data.JWT && { ...data.JWT, secret: data.JWT_SECRET },
    unverified: data.UNVERIFIED,
    ipv6Prefix: data.IPV6_PREFIX,
    costHeader: data.COST_HEADER,
    originRateLimitHeaders: data.ORIGIN_RATE_LIMIT_HEADERS,
    overrideHeaders: data.OVERRIDE_HEADERS,
    originTimeoutMs: data.ORIGIN_TIMEOUT_MS,
  };
}

function haveNamesOfTheirOwn(list: readonly { readonly name: string }[]): boolean {
  return new Set(list.map(({ name }) => name)).size === list.length;
}

/** False if something is wrong with one of them: that is told, and they are not missing. */
function isAdminParsed({ issues }: z.core.ParsePayload): boolean {
  return !issues.some(({ path }) => String(path?.[0]).startsWith('ADMIN_'));
}

/** ADMIN_TOKEN is the short way to have one token. */
function adminTokensOf(single: string | undefined, several: readonly AdminToken[] = []): AdminToken[] {
  const tokens: AdminToken[] = [...several];
  if (single !== undefined) tokens.push({ name: 'admin', token: single, role: 'admin' });
  return tokens;
}

/** `REGIONS[1].token: must not be empty`, or `ORIGIN_URL: is missing`. */
function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map((part, i) =>
    typeof part === 'number' ? `[${part}]` : i > 0 ? `.${String(part)}` : String(part),
  );
  const missing = issue.code === 'invalid_type' && issue.input === undefined;
  return `${path.join('')}: ${missing ? 'is missing' : issue.message}`;
}
