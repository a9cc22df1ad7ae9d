// Publishing with all its real parts: Postgres, KV and the Redis of two regions. Tests can make each wait or fail.
import { neonConfig } from '@neondatabase/serverless';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway } from '../../local/upstash-gateway/server.ts';
import { ANNOUNCEMENT_KEY } from '../../src/core/counting/keys.ts';
import { type Announcement, parseAnnouncement, type RulesPointer } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import type { Kv } from '../../src/rules/edge/published.ts';
import { type PublishOptions, publish } from '../../src/rules/publishing/publish.ts';
import { createRuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { DELETE_ALL, startDatabase, type TestDatabase } from './database.ts';
import { startKv, type TestKv } from './kv.ts';

export type Step = 'postgres' | `${'read' | 'probe' | 'copy' | 'write'} ${'eu' | 'us'}` | `put ${string}`;
const SIGNAL_MS = 30_000;

export async function startRegion(name: 'eu' | 'us') {
  const server = await startRedisServer({ port: 0, name });
  const gateway = await startUpstashGateway({ port: 0, token: 'token', redisUrl: server.url, name });
  const client = createClient({ url: gateway.url, token: 'token' });
  const pointer = createRulesPointer(client);
  const signal = () => AbortSignal.timeout(SIGNAL_MS);
  return {
    ...{ name, pointer, server, gateway, store: createUpstashStore(client) },
    standing: async () => parseAnnouncement(await pointer.read(signal())),
    put: (announcement: Announcement) => pointer.write(announcement, signal()),
    putText: (text: string) => client.send(signal(), (redis) => redis.set(ANNOUNCEMENT_KEY, text)),
    clear: () => client.send(signal(), (redis) => redis.flushall()),
    async stop() {
      await gateway.stop();
      await server.stop();
    },
  };
}
export type Region = Awaited<ReturnType<typeof startRegion>>;

/** The `regions` of a publication that every region has. */
export const EVERYWHERE = ['eu', 'us'].map((name) => ({ name, announced: true }));

/** Call it once in a test file. Each test starts without rules and publications. */
export function usePublishing() {
  let db: TestDatabase;
  let space: TestKv;
  let pool: pg.Pool;
  let regions: readonly Region[];
  const errors: unknown[] = [];
  const reads: string[] = [];
  /** The region of each failure, if it has one. */
  const failed: (string | undefined)[] = [];
  const writes: string[] = [];
  const copies: string[] = [];
  /** Runs before every step of a publication. If it throws, the step fails with that error. */
  const before = { step: async (_step: Step): Promise<unknown> => undefined };
  /** The region that hangs. Weir gives up on it, and never on a region that a test or a busy machine delays. */
  const hanging: { name?: Region['name'] } = {};
  const waitFor = (name: Region['name'], signal: AbortSignal) =>
    hanging.name === name ? signal : AbortSignal.timeout(SIGNAL_MS);

  beforeAll(async () => {
    [db, space] = [await startDatabase(), await startKv()];
    pool = new pg.Pool({ connectionString: db.url });
    // A test may stop Postgres while the pool is open.
    pool.on('error', () => {});
    regions = [await startRegion('eu'), await startRegion('us')];
    neonConfig.fetchFunction = async (url: string, init: { body: string }) => {
      await before.step('postgres');
      return fetch(url, init);
    };
  });
  afterAll(async () => {
    neonConfig.fetchFunction = undefined;
    for (const region of regions) await region.stop();
    await pool.end();
    await space[Symbol.asyncDispose]();
    await db[Symbol.asyncDispose]();
  });
  const run = (statement: string, values?: unknown[]) => pool.query(statement, values);

  async function clear() {
    before.step = async () => undefined;
    delete hanging.name;
    for (const region of regions) await region.clear();
    for (const name of await keys()) await space.kv.delete(name);
    await run(DELETE_ALL);
    reads.length = 0;
    writes.length = 0;
    copies.length = 0;
    errors.length = 0;
    failed.length = 0;
  }
  beforeEach(clear);

  const keys = async () => (await space.kv.list({ prefix: '' })).keys.map(({ name }) => name);
  const kvOf = ({ kv }: TestKv): Kv => ({
    get(name) {
      reads.push(name);
      return kv.get(name);
    },
    async put(name, text, options) {
      await before.step(`put ${name.split(':')[0]}`);
      writes.push(name);
      await kv.put(name, text, options);
    },
  });
  const boardOf = ({ name, pointer }: Region): RulesPointer => ({
    async read(signal) {
      await before.step(`read ${name}`);
      return pointer.read(waitFor(name, signal));
    },
    async write(announcement, signal) {
      await before.step(`write ${name}`);
      await pointer.write(announcement, waitFor(name, signal));
    },
    readPublished: pointer.readPublished,
    async writeParts(parts, signal) {
      await before.step(`copy ${name}`);
      copies.push(...parts.map(({ kind, version }) => `${name} ${kind}:${version}`));
      await pointer.writeParts(parts, waitFor(name, signal));
    },
  });

  const storeOf = ({ name, store }: Region) => ({
    async probe(signal: AbortSignal) {
      await before.step(`probe ${name}`);
      await store.probe(waitFor(name, signal));
    },
  });

  const now = () => Date.now();

  /** The options of one isolate. */
  const createOptions = (shares: Partial<Record<Region['name'], number>> = {}): PublishOptions => ({
    database: db.database,
    reader: createRuleReader(db.database, { now }),
    now,
    kv: kvOf(space),
    regions: regions.map((region) => ({
      name: region.name,
      share: shares[region.name] ?? 1,
      pointer: boardOf(region),
      store: storeOf(region),
    })),
    onError: (error, region) => {
      errors.push(error);
      failed.push(region);
    },
  });

  /** From now on these steps fail. */
  const failAt = (...steps: Step[]) => {
    before.step = async (step) => {
      if (steps.includes(step)) throw new Error(`fails: ${step}`);
    };
  };
  /** From now on every step succeeds. */
  const succeed = () => {
    before.step = async () => undefined;
  };

  return {
    ...{
      before,
      clear,
      copies,
      createOptions,
      errors,
      failAt,
      failed,
      hanging,
      keys,
      reads,
      run,
      succeed,
      writes,
    },
    publishNow: (shares: Parameters<typeof createOptions>[0] = {}) => publish(createOptions(shares)),
    standing: () => Promise.all(regions.map((region) => region.standing())),
    regions: () => regions,
    kv: () => space.kv,
    stopPostgres: () => db.stopPostgres(),
    addRule: (name: string, more: Readonly<Record<string, unknown>> = {}) => {
      const row = {
        resource: `/${name}`,
        scope: 'ip',
        algorithm: 'fixed-window',
        limit: 5,
        window_seconds: 60,
        ...more,
      };
      const columns = ['name', ...Object.keys(row)].map((column) => `"${column}"`);
      const places = columns.map((_, i) => `$${i + 1}`);
      return run(`insert into rules (${columns}) values (${places})`, [name, ...Object.values(row)]);
    },
  };
}
