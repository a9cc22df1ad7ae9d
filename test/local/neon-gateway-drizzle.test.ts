// drizzle-orm/neon-http against the gateway: every column type returns the value that was written.
import { neon, neonConfig } from '@neondatabase/serverless';
import { eq, sql } from 'drizzle-orm';
import { drizzle } from 'drizzle-orm/neon-http';
import {
  bigint,
  bigserial,
  boolean,
  customType,
  date,
  doublePrecision,
  integer,
  jsonb,
  numeric,
  pgEnum,
  pgTable,
  smallint,
  text,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type NeonGateway, startNeonGateway } from '../../local/neon-gateway/server.ts';
import { freePort } from '../../local/ports.ts';
import { rounds } from '../rounds.ts';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' });
const mode = pgEnum('mode', ['enforce', 'shadow']);
const rules = pgTable('rules', {
  id: bigserial({ mode: 'bigint' }).primaryKey(),
  name: text().notNull().unique(),
  mode: mode().notNull().default('enforce'),
  key: uuid(),
  tags: text().array(),
  codes: integer().array(),
  match: jsonb(),
  quota: bigint({ mode: 'bigint' }),
  price: numeric({ precision: 30, scale: 10 }),
  ratio: doublePrecision(),
  priority: smallint(),
  active: boolean(),
  secret: bytea(),
  startsOn: date('starts_on', { mode: 'string' }),
  createdAt: timestamp('created_at', { withTimezone: true }).notNull().defaultNow(),
  stamp: timestamp({ withTimezone: true, mode: 'string' }),
  local: timestamp(),
});

const DDL = `create type mode as enum ('enforce', 'shadow');
create table rules (id bigserial primary key, name text not null unique, mode mode not null default 'enforce',
  key uuid, tags text[], codes int[], match jsonb, quota bigint, price numeric(30,10), ratio float8,
  priority smallint, active boolean, secret bytea, starts_on date,
  created_at timestamptz not null default now(), stamp timestamptz, local timestamp)`;

const db = drizzle(neon('postgresql://weir:secret@db.example.test/weir'));
let postgres: FreshDatabase;
let gateway: NeonGateway;

beforeAll(async () => {
  postgres = await createFreshDatabase('empty');
  gateway = await startNeonGateway({ port: await freePort(), databaseUrl: postgres.url });
  neonConfig.fetchEndpoint = gateway.fetchEndpoint;
  for (const statement of DDL.split(';')) await db.execute(sql.raw(statement));
});
afterAll(async () => {
  await gateway.stop();
  await postgres[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await db.execute(sql`truncate rules restart identity`);
});

const FULL = {
  name: 'per-user "quoted"',
  mode: 'shadow' as const,
  key: '2f1c1a52-7a3e-4b7c-9f43-5a1f0e0c9b11',
  tags: ['a', 'with,comma', 'with "quote"', 'NULL', '', 'back\\slash', '{brace}'],
  codes: [1, -2, 2147483647],
  match: { path: '/v1/*', nested: [null, true, 1.5, 'ü'] },
  quota: 9223372036854775807n,
  price: '12345678901234567890.0123456789',
  ratio: 0.1,
  priority: -32768,
  active: false,
  secret: Buffer.from([0, 1, 254, 255]),
  startsOn: '2026-02-28',
  createdAt: new Date('2026-02-03T04:05:06.789Z'),
  stamp: '2026-02-03 04:05:06.789+00',
  local: new Date('2026-07-01T10:00:00.000Z'),
};

it('Drizzle round-trips every column type', async () => {
  const [inserted] = await db.insert(rules).values(FULL).returning();
  expect(inserted).toEqual({ id: 1n, ...FULL });
  expect(await db.select().from(rules)).toEqual([{ id: 1n, ...FULL }]);
});

it('Drizzle round-trips nulls and fills in defaults', async () => {
  await db.insert(rules).values({ name: 'bare' });
  const [row] = await db.select().from(rules);
  expect(row).toMatchObject({
    name: 'bare',
    mode: 'enforce',
    key: null,
    tags: null,
    match: null,
    active: null,
  });
  expect(row?.createdAt).toBeInstanceOf(Date);
});

/** Drizzle reads a string in a JSON column as JSON, if it can: "0" comes back as 0. */
function isParsedTwice(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

it('Drizzle round-trips any text, text array and JSON', async () => {
  // Postgres text holds no NUL, and no half of a surrogate pair.
  const words = fc.string({ unit: 'binary' }).map((word) => word.replaceAll('\0', ''));
  // -0 is 0 in JSON.
  const json = fc
    .jsonValue()
    .filter((value) => !JSON.stringify(value).includes('\\u0000') && value !== null && !isParsedTwice(value));
  await fc.assert(
    fc.asyncProperty(words, fc.array(words, { maxLength: 4 }), json, async (name, tags, match) => {
      await db.delete(rules);
      const expected = { name, tags, match: JSON.parse(JSON.stringify(match)) };
      const columns = { name: rules.name, tags: rules.tags, match: rules.match };
      const [row] = await db.insert(rules).values(expected).returning(columns);
      expect(row).toEqual(expected);
    }),
    { numRuns: rounds(60) },
  );
});

it('Drizzle updates and deletes with returning, and finds by parameters', async () => {
  await db.insert(rules).values([{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
  const updated = await db.update(rules).set({ active: true }).where(eq(rules.name, 'b')).returning();
  expect(updated).toMatchObject([{ id: 2n, active: true }]);
  expect(await db.select({ id: rules.id }).from(rules).where(eq(rules.active, true))).toEqual([{ id: 2n }]);
  expect(await db.delete(rules).where(eq(rules.name, 'a')).returning({ id: rules.id })).toEqual([{ id: 1n }]);
  expect(await db.$count(rules)).toBe(2);
  const { rowCount, command } = await db.delete(rules);
  expect({ rowCount, command }).toEqual({ rowCount: 2, command: 'DELETE' });
});

it('Drizzle runs a batch as one transaction, in which each query sees the earlier ones', async () => {
  const [, second, counted] = await db.batch([
    db.insert(rules).values({ name: 'a' }),
    db.insert(rules).values({ name: 'b' }).returning({ id: rules.id }),
    db.select({ count: sql<number>`count(*)::int` }).from(rules),
  ]);
  expect([second, counted]).toEqual([[{ id: 2n }], [{ count: 2 }]]);
});

it('Drizzle rolls a whole batch back when one query fails', async () => {
  await db.insert(rules).values({ name: 'taken' });
  const failing = db.batch([
    db.insert(rules).values({ name: 'a' }),
    db.delete(rules).where(eq(rules.name, 'taken')),
    db.insert(rules).values({ name: 'a' }),
  ]);
  const error = await failing.catch((reason: Error) => (reason.cause ?? reason) as Error);
  expect(error).toMatchObject({ code: '23505', constraint: 'rules_name_key' });
  expect(await db.select({ name: rules.name }).from(rules)).toEqual([{ name: 'taken' }]);
});
