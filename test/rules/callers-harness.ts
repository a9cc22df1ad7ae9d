// Callers in a real Postgres and a real KV namespace, and isolates that look them up. Tests watch the driver's fetch,
// and make it fail or hang.
import { neonConfig } from '@neondatabase/serverless';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { CallerRecord, Found, LookUp } from '../../src/core/ports/callers.ts';
import {
  API_KEY_RANDOM_BYTES,
  createApiKey,
  hashApiKey,
  prefixOf,
  prefixOfHash,
} from '../../src/identity/api-key.ts';
import { findApiKey, findUser } from '../../src/identity/caller-rows.ts';
import { createCallerDirectory } from '../../src/identity/directory.ts';
import type { Kv } from '../../src/rules/edge/published.ts';
import type { Database } from '../../src/rules/tables/repository.ts';
import { apiKeys, tenants, tiers, users } from '../../src/rules/tables/tables.ts';
import { startDatabase, type TestDatabase } from './database.ts';
import { startKv, type TestKv } from './kv.ts';

export const madeUpKey = () => createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
/** The answer about a caller with these fields. */
export const found = (record: CallerRecord): Found<CallerRecord> => ({ kind: 'found', record });
export const fails = () => Promise.reject(new Error('down'));
export const hangs = () => new Promise<never>(() => {});

let addresses = 0;
/** An address that no other look-up has used. */
const freshIp = () => `address-${++addresses}`;

interface World {
  readonly database: Database;
  readonly store: Kv;
  readonly deadlineMs?: number;
  readonly epoch?: string;
}

/** Call it once in a test file. */
export function useCallers() {
  let db: TestDatabase;
  let space: TestKv;
  /** What goes to Postgres, and what becomes of it. */
  const wire = { bodies: [] as string[], deliver: undefined as (() => Promise<void>) | undefined };

  beforeAll(async () => {
    db = await startDatabase();
    space = await startKv();
    await db.database.insert(tiers).values(['bronze', 'silver', 'gold'].map((name) => ({ name })));
    await db.database
      .insert(tenants)
      .values([{ id: 'BRONZE', tier: 'bronze' }, { id: 'SILVER', tier: 'silver' }, { id: 'PLAIN' }]);
    neonConfig.fetchFunction = async (url: string, init: { body: string }) => {
      wire.bodies.push(init.body);
      await wire.deliver?.();
      return fetch(url, init);
    };
  });

  beforeEach(() => {
    wire.bodies = [];
    wire.deliver = undefined;
  });

  afterAll(async () => {
    neonConfig.fetchFunction = undefined;
    await space[Symbol.asyncDispose]();
    await db[Symbol.asyncDispose]();
  });

  async function issueKey(fields: Partial<typeof apiKeys.$inferInsert> = {}) {
    const key = await madeUpKey();
    const hash = await hashApiKey(key);
    const rows = { hash, prefix: prefixOf(key), ...fields };
    const [row] = await db.database.insert(apiKeys).values(rows).returning({ id: apiKeys.id });
    wire.bodies = [];
    return { key, hash, id: row?.id };
  }

  /** A key that Weir has not made. */
  async function bringKey(fields: Partial<typeof apiKeys.$inferInsert> = {}) {
    const key = `sk_live_${crypto.randomUUID()}`;
    const hash = await hashApiKey(key);
    await db.database.insert(apiKeys).values({ hash, prefix: prefixOfHash(hash), ...fields });
    wire.bodies = [];
    return { key, hash };
  }

  async function addUser(fields: Omit<typeof users.$inferInsert, 'id'> = {}) {
    const id = `user-${crypto.randomUUID()}`;
    await db.database.insert(users).values({ id, ...fields });
    wire.bodies = [];
    return id;
  }

  return {
    ...{ wire, issueKey, bringKey, addUser },
    openIsolate: (world: Partial<World> = {}) =>
      createIsolate({ database: db.database, store: space.kv, ...world }),
    database: () => db.database,
    kv: () => space.kv,
    stopPostgres: () => db.stopPostgres(),
  };
}

/** One isolate: a directory with its clock and the news it has. Tests can wait for its work after responses. */
function createIsolate({ database, store, deadlineMs = 20_000, epoch = crypto.randomUUID() }: World) {
  const errors: unknown[] = [];
  const works: Promise<unknown>[] = [];
  const reads: string[] = [];
  const writes: string[] = [];
  const revisions = new Map<string, string>();
  const faults = new Map<'get' | 'put', () => Promise<never>>();
  const clock = { ms: 1_700_000_000_000 };
  const news = { epoch, onlyWeirKeys: true };
  const watched: Kv = {
    get(name) {
      reads.push(name);
      return faults.get('get')?.() ?? store.get(name);
    },
    put(name, text, options) {
      writes.push(name);
      return faults.get('put')?.() ?? store.put(name, text, options);
    },
  };
  const directory = createCallerDirectory({
    rows: { key: (hash) => findApiKey(database, hash), user: (id) => findUser(database, id) },
    kv: watched,
    now: () => clock.ms,
    deadlineMs,
    revisions: () => ({ ...news, revisions: Object.fromEntries(revisions) }),
    onError: (error) => errors.push(error),
  });
  const afterResponse = (work: Promise<unknown>) => void works.push(work);
  /** From an address of its own, by default. */
  const from = (look: Partial<LookUp>): LookUp => ({ ip: freshIp(), afterResponse, ...look });
  return {
    ...{ clock, errors, faults, news, reads, revisions, writes },
    settle: () => Promise.all(works.splice(0)),
    ofApiKey: (key: string, look: Partial<LookUp> = {}) => directory.ofApiKey(key, from(look)),
    ofUser: (userId: string, look: Partial<LookUp> = {}) => directory.ofUser(userId, from(look)),
  };
}
