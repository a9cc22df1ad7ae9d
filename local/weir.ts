// A whole Weir: three isolates of the built Worker in real workerd, three regions, Postgres, and one KV.
import pg from 'pg';
import type { RegionFault } from './fault-catalogue.ts';
import { type Isolates, startIsolates } from './isolates.ts';
import type { LocalRegion } from './regions.ts';
import { type Stack, startStack } from './stack.ts';
import type { FaultRequest } from './upstash-gateway/faults.ts';

const TOKEN = 'an-admin-token-for-tests';
const NAMES = ['one', 'two', 'three'] as const;
export type IsolateName = (typeof NAMES)[number];
export const REGIONS = ['us', 'eu', 'ap'] as const;

export interface Call {
  readonly isolate?: IsolateName;
  readonly region?: string;
  readonly ip?: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  /** Sent as JSON. */
  readonly body?: unknown;
}

export interface Weir extends AsyncDisposable {
  readonly stack: Stack;
  readonly isolates: Isolates;
  /** A token of the role admin. */
  readonly token: string;
  call(path: string, call?: Call): Promise<Response>;
  /** `path` is the part after /_weir/admin. Returns the body; throws if the answer is not a success. */
  admin<T = Record<string, never>>(path: string, call?: Call): Promise<T>;
  /** What an isolate reports about itself and the parts. */
  health<T = Record<string, unknown>>(isolate: IsolateName): Promise<T>;
  sql(query: string): Promise<void>;
  region(name: string): LocalRegion;
  /** Applies a fault of the catalogue while `during` runs. */
  withRegionFault(region: string, fault: RegionFault, during: () => Promise<void>): Promise<void>;
  /** Breaks the gateway of a region while `during` runs. */
  withFault(region: string, fault: FaultRequest, during: () => Promise<void>): Promise<void>;
}

let lastIp = 0;
/** An address that no other request has used. */
export function freshIp(): string {
  lastIp += 1;
  return `10.${(lastIp >> 16) & 255}.${(lastIp >> 8) & 255}.${lastIp & 255}`;
}

/** Parts that exist already. All others are started. */
export interface WeirParts {
  readonly databaseUrl?: string;
  /** The folder that `buildWorker` has written to. */
  readonly bundle?: string;
  /** The isolates to start; all three by default. Each takes processor time, even if it gets no requests. */
  readonly isolates?: readonly IsolateName[] | undefined;
  /** See isolates.ts. */
  readonly queue?: string | undefined;
  readonly queueRetries?: number | undefined;
  readonly hasPage?: boolean | undefined;
}

export async function startWeir(
  variables: Record<string, string> = {},
  { databaseUrl, bundle, isolates: names = NAMES, queue, queueRetries, hasPage }: WeirParts = {},
): Promise<Weir> {
  await using cleanup = new AsyncDisposableStack();
  const ports = { origin: 0, upstash: 0, neon: 0, redis: 0, postgres: 0 };
  const stack = cleanup.use(await startStack({ ports, databaseUrl, say: () => {} }));
  const isolates = cleanup.use(
    await startIsolates({
      names,
      bundle,
      queue,
      queueRetries,
      hasPage,
      // All parts share this machine, and the deadline is not the subject of these tests.
      variables: { ...stack.variables, ADMIN_TOKEN: TOKEN, DEADLINE_MS: '10000', ...variables },
    }),
  );

  const region = (name: string): LocalRegion => {
    const known = stack.regions.find((candidate) => candidate.name === name);
    if (!known) throw new Error(`there is no region ${name}`);
    return known;
  };

  const call = (path: string, { isolate = 'one', region = 'us', ip = freshIp(), body, ...init }: Call = {}) =>
    fetch(`${isolates.urls[isolate]}${path}`, {
      method: init.method ?? 'GET',
      headers: {
        'CF-Connecting-IP': ip,
        'X-Weir-Region': region,
        ...(body !== undefined && { 'Content-Type': 'application/json' }),
        ...init.headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });

  const admin = async <T>(path: string, { headers, ...init }: Call = {}): Promise<T> => {
    const authorization = { Authorization: `Bearer ${TOKEN}`, ...headers };
    const answer = await call(`/_weir/admin${path}`, { ...init, headers: authorization });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    return (answer.status === 204 ? undefined : await answer.json()) as T;
  };

  const owned = cleanup.move();
  return {
    stack,
    isolates,
    token: TOKEN,
    call,
    admin,
    async health<T>(isolate: IsolateName) {
      const headers = { Authorization: `Bearer ${TOKEN}` };
      return (await (await call('/_weir/health', { isolate, headers })).json()) as T;
    },
    async sql(query) {
      const client = new pg.Client({ connectionString: stack.databaseUrl });
      await client.connect();
      await client.query(`set search_path = weir; ${query}`).finally(() => client.end());
    },
    region,
    async withRegionFault(name, fault, during) {
      await fault.begin(region(name));
      await during().finally(() => fault.end(region(name)));
    },
    async withFault(name, fault, during) {
      const { faults } = region(name).gateway;
      await faults.set(fault);
      await during().finally(() => faults.clear());
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
