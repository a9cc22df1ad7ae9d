// Bindings and variables, checked once per isolate into a typed config. A bad one is named in the error,
// never its value: it may be a secret.
import type { KVNamespace } from '@cloudflare/workers-types';
import * as z from 'zod';
import type { Bindings } from './bindings.ts';

const DEFAULT_DEADLINE_MS = 250;

const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https URL' });

const region = z.strictObject({
  name: z.string().regex(/^[a-z0-9-]{1,32}$/, 'must be 1 to 32 of a-z, 0-9 and -'),
  url: httpUrl,
  token: z.string().min(1, 'must not be empty'),
  share: z.number().positive(),
  /** A Redis Cluster: one call for each subject, because a script can touch one slot only. */
  cluster: z.boolean().default(false),
  latitude: z.number().min(-90).max(90),
  longitude: z.number().min(-180).max(180),
});

const regionList = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue({ code: 'custom', message: 'must be a JSON list' });
      return z.NEVER;
    }
  })
  .pipe(z.tuple([region], region))
  .refine(
    (list) => new Set(list.map(({ name }) => name)).size === list.length,
    'has two regions of one name',
  );

const configSchema = z.object({
  RULES: z.custom<KVNamespace>(
    (value) => typeof value === 'object' && value !== null,
    'KV binding is missing',
  ),
  ORIGIN_URL: httpUrl.transform((url) => url.replace(/\/+$/, '')),
  REGIONS: regionList,
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }),
  ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters'),
  ENVIRONMENT: z.enum(['production', 'development']).default('production'),
  DEADLINE_MS: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, 'must be a whole number of milliseconds from 1 to 99999')
    .transform(Number)
    .default(DEFAULT_DEADLINE_MS),
  DATABASE_HTTP_ENDPOINT: httpUrl.optional(),
});

export type Region = z.infer<typeof region>;

export interface Config {
  readonly rulesKv: KVNamespace;
  readonly originUrl: string;
  readonly regions: readonly [Region, ...Region[]];
  readonly databaseUrl: string;
  readonly databaseHttpEndpoint: string | undefined;
  readonly adminToken: string;
  readonly isDevelopment: boolean;
  readonly deadlineMs: number;
}

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
    adminToken: data.ADMIN_TOKEN,
    isDevelopment: data.ENVIRONMENT === 'development',
    deadlineMs: data.DEADLINE_MS,
  };
}

/** `REGIONS[1].token: must not be empty`, or `ORIGIN_URL: is missing`. */
function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map((part, i) =>
    typeof part === 'number' ? `[${part}]` : i > 0 ? `.${String(part)}` : String(part),
  );
  const missing = issue.code === 'invalid_type' && issue.input === undefined;
  return `${path.join('')}: ${missing ? 'is missing' : issue.message}`;
}
