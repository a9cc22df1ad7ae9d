// Reads the environment variables of the local stack and checks all of them at the start. One clear line names a bad
// one.
import { resolve } from 'node:path';
import * as z from 'zod';
import { variablesOf } from '../src/config/variables.ts';
import { assertPortFree, StackError } from './ports.ts';

const REGION_COUNT = 3;

/** Some settings are the first of three consecutive ports. */
const PORT_RANGE = 'must be a port number from 0 to 65532 (0 = any free one)';

/** A port, or 0 for any free one. */
const port = (fallback: number) =>
  z
    .string()
    .regex(/^\d{1,5}$/, PORT_RANGE)
    .transform(Number)
    .refine((value) => value <= 65_535 - REGION_COUNT, PORT_RANGE)
    .default(fallback);

const settingsSchema = z.object({
  PORT: port(8787),
  ORIGIN_PORT: port(8788),
  UPSTASH_PORT: port(8790),
  NEON_PORT: port(8795),
  REDIS_PORT: port(6390),
  POSTGRES_PORT: port(5488),
  ORIGIN_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  DATABASE_URL: z.url({ protocol: /^postgres(ql)?$/, error: 'must be a postgres:// URL' }).optional(),
  WEIR_URL: z.url({ protocol: /^https?$/, error: 'must be an http or https URL' }).optional(),
  ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters').optional(),
  DEADLINE_MS: z
    .string()
    .regex(/^[1-9]\d{0,4}$/, 'must be a whole number of milliseconds from 1 to 99999')
    // All parts share this machine. A burst of curls should be counted, not let through because the deadline passed.
    .default('1000'),
  WEIR_DATA_DIR: z.string().min(1).default('.weir'),
});

export interface Settings {
  readonly ports: Readonly<Record<'worker' | 'origin' | 'upstash' | 'neon' | 'redis' | 'postgres', number>>;
  readonly originUrl: string | undefined;
  readonly databaseUrl: string | undefined;
  /** The address of a running Weir, where `npm run db:migrate` publishes. */
  readonly weirUrl: string | undefined;
  /** Undefined means the token kept with the data, or a new one. */
  readonly adminToken: string | undefined;
  readonly deadlineMs: string;
  readonly dataDir: string;
  /** Variables passed on to the Worker, which checks them itself. */
  readonly worker: Readonly<Record<string, string>>;
}

/** The stack itself sets these. */
const SET_BY_THE_STACK = [
  'ENVIRONMENT',
  'REGIONS',
  'ORIGIN_URL',
  'DATABASE_URL',
  'DATABASE_HTTP_ENDPOINT',
  'DEADLINE_MS',
  'ADMIN_TOKEN',
];

const { core, deployment, forwarding } = variablesOf({});
const FOR_THE_WORKER = Object.keys({ ...core, ...deployment, ...forwarding }).filter(
  (name) => !SET_BY_THE_STACK.includes(name),
);

export function parseSettings(env: NodeJS.ProcessEnv): Settings {
  const parsed = settingsSchema.safeParse(withoutEmpty(env));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new StackError(`${issue?.path.join('.')} ${issue?.message}`);
  }
  const { data } = parsed;
  return {
    ports: {
      worker: data.PORT,
      origin: data.ORIGIN_PORT,
      upstash: data.UPSTASH_PORT,
      neon: data.NEON_PORT,
      redis: data.REDIS_PORT,
      postgres: data.POSTGRES_PORT,
    },
    originUrl: data.ORIGIN_URL,
    databaseUrl: data.DATABASE_URL,
    weirUrl: data.WEIR_URL,
    adminToken: data.ADMIN_TOKEN,
    deadlineMs: data.DEADLINE_MS,
    dataDir: resolve(data.WEIR_DATA_DIR),
    worker: Object.fromEntries(FOR_THE_WORKER.flatMap((name) => (env[name] ? [[name, env[name]]] : []))),
  };
}

/** Checked before anything starts, so that there is nothing to clean up when a variable must change. */
export async function assertPortsFree({ ports, originUrl, databaseUrl }: Settings): Promise<void> {
  const wanted: [variable: string, first: number, count: number][] = [
    ['PORT', ports.worker, 1],
    ['ORIGIN_PORT', ports.origin, originUrl ? 0 : 1],
    ['UPSTASH_PORT', ports.upstash, REGION_COUNT],
    ['NEON_PORT', ports.neon, 1],
    ['REDIS_PORT', ports.redis, REGION_COUNT],
    ['POSTGRES_PORT', ports.postgres, databaseUrl ? 0 : 1],
  ];
  const taken = new Map<number, string>();
  for (const [variable, first, count] of wanted) {
    for (let port = first; first !== 0 && port < first + count; port += 1) {
      const other = taken.get(port);
      if (other) throw new StackError(`${variable} and ${other} both want port ${port}`);
      taken.set(port, variable);
      await assertPortFree(port, `set ${variable} to use another`);
    }
  }
}

/** `PORT= npm run dev` means the default, as in a shell. */
function withoutEmpty(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
}
