// The constraints of a real Postgres, tested with plain SQL, as a person or a migration would write it.
import { readFileSync } from 'node:fs';
import { is } from 'drizzle-orm';
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WRITTEN_DEFAULTS } from '../../src/authoring/rule-schema.ts';
import * as schema from '../../src/rules/tables/tables.ts';
import { CASES } from './bad-rows.ts';
import { startDatabase, type TestDatabase } from './database.ts';
import { type Case, LEAST, type Row, STANDING } from './row-cases.ts';

let db: TestDatabase;
let client: pg.Client;
/** The table of each CHECK, unique or foreign key constraint, unique index and primary key. */
let tableOf: Map<string, string>;

beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
  const { rows } = await client.query<{ name: string; table: string }>(`
    select conname as name, conrelid::regclass::text as table from pg_constraint
    where connamespace = 'weir'::regnamespace and contype <> 'n'
    union
    select indexrelid::regclass::text, indrelid::regclass::text from pg_index join pg_class on oid = indrelid
    where relnamespace = 'weir'::regnamespace and indisunique`);
  tableOf = new Map(
    rows.filter(({ table }) => !table.endsWith('migrations')).map(({ name, table }) => [name, table]),
  );
  for (const [table, row] of Object.entries(STANDING)) await insert(table, row);
});
afterAll(async () => {
  await client.end();
  await db[Symbol.asyncDispose]();
});

function insert(table: string, row: Row) {
  const full = { ...LEAST[table], ...row };
  const columns = Object.keys(full).map((column) => `"${column}"`);
  const places = columns.map((_, i) => `$${i + 1}`);
  return client.query(
    `insert into ${table} (${columns}) overriding system value values (${places})`,
    Object.values(full),
  );
}

/** The answer of Postgres to a row, which is rolled back. */
async function verdict(
  table: string,
  row: Row,
  { withoutTriggers = false, standing }: Omit<Case, 'refused'> = {},
) {
  await client.query('begin');
  if (withoutTriggers) await client.query('set local session_replication_role = replica');
  try {
    if (standing) await insert(table, standing);
    await insert(table, row);
    return 'taken';
  } catch (error) {
    if (error instanceof pg.DatabaseError) return error.constraint ?? error.code;
    throw error;
  } finally {
    await client.query('rollback');
  }
}

describe('a constraint', () => {
  it('of the database has a case here, and every constraint of the schema is in the database', () => {
    expect([...tableOf.keys()].sort()).toEqual(Object.keys(CASES).sort());
    const named = Object.values(schema).flatMap((table) => {
      if (!is(table, PgTable)) return [];
      const { checks, indexes } = getTableConfig(table);
      const unique = indexes.filter(({ config }) => config.unique).map(({ config }) => config.name);
      return [...checks.map(({ name }) => name), ...unique];
    });
    expect(named.length).toBeGreaterThan(40);
    for (const name of named) expect(Object.keys(CASES)).toContain(name);
  });

  it.each(Object.entries(CASES))(
    '%s refuses a row that breaks it',
    async (name, { refused, sqlState, ...how }) => {
      for (const row of refused)
        expect(await verdict(tableOf.get(name) ?? '', row, how), JSON.stringify(row)).toBe(sqlState ?? name);
    },
  );

  it.each(Object.entries(CASES))('%s accepts a row that keeps it', async (name, { taken = [{}] }) => {
    for (const row of taken)
      expect(await verdict(tableOf.get(name) ?? '', row), JSON.stringify(row)).toBe('taken');
  });
});

describe('a column', () => {
  it('that is required must not be null', async () => {
    const { rows } = await client.query<{ table: string; column: string }>(`
      select table_name as table, column_name as column from information_schema.columns
      where table_schema = 'weir' and table_name not like '%migrations' and is_nullable = 'NO'`);
    expect(rows.length).toBeGreaterThan(50);
    for (const { table, column } of rows) {
      await client.query('begin');
      await expect(insert(table, { [column]: null }), `${table}.${column}`).rejects.toMatchObject({
        code: '23502',
        column,
      });
      await client.query('rollback');
    }
  });

  it.each([
    ['rules', { limit: 1.5 }, '22P02'],
    ['rules', { window_seconds: 2 ** 31 }, '22003'],
    ['rules', { priority: 2 ** 31 }, '22003'],
    ['rules', { enabled: 'maybe' }, '22P02'],
    ['rules', { id: 'x' }, '22P02'],
    ['rules', { methods: 'GET' }, '22P02'],
    ['rules', { shares: '{' }, '22P02'],
    ['tiers', { limits: '{"a": NaN}' }, '22P02'],
    ['api_keys', { expires_at: 'tomorrow or so' }, '22007'],
    ['list_entries', { value: 'a\0b' }, '22021'],
  ])('of %s refuses by its type %j', async (table, row, sqlState) => {
    expect(await verdict(table, row)).toBe(sqlState);
  });
});

describe('a row that others refer to', () => {
  it.each([
    ['tenants_tier_tiers_name_fk', 'tenants', { tier: 'free' }, 'delete from tiers'],
    ['users_tier_tiers_name_fk', 'users', { tier: 'free' }, 'delete from tiers'],
    ['api_keys_tier_tiers_name_fk', 'api_keys', { tier: 'free' }, 'delete from tiers'],
    ['users_tenant_id_tenants_id_fk', 'users', { tenant_id: 'globex' }, 'delete from tenants'],
    ['api_keys_tenant_id_tenants_id_fk', 'api_keys', { tenant_id: 'globex' }, 'delete from tenants'],
    ['users_tenant_id_tenants_id_fk', 'users', { tenant_id: 'globex' }, `update tenants set id = 'other'`],
  ])('by %s cannot be deleted or renamed', async (constraint, table, row, statement) => {
    await client.query('begin');
    await insert(table, row);
    await expect(client.query(statement)).rejects.toMatchObject({ code: '23503', constraint });
    await client.query('rollback');
  });
});

it('a tier that becomes the default replaces the former default', async () => {
  const defaults = async () =>
    (await client.query('select name from tiers where is_default')).rows.map(({ name }) => name);
  await insert('tiers', { name: 'pro', is_default: true });
  expect(await defaults()).toEqual(['pro']);
  await client.query(`update tiers set is_default = true where name = 'free'`);
  expect(await defaults()).toEqual(['free']);
  await client.query(`delete from tiers where name = 'pro'`);
});

describe('a rule with only the required fields', () => {
  it('has all the defaults', async () => {
    await client.query(`insert into rules (resource, "limit", window_seconds) values ('/x', 1, 30)`);
    const [row] = (await db.database.select().from(schema.rules)).slice(-1);
    const { id, name, ordinal, revision, createdAt, updatedAt, ...said } = row ?? expect.fail('no rule');
    const { limit: _, ...defaults } = WRITTEN_DEFAULTS;
    expect(said).toEqual({
      ...defaults,
      resource: '/x',
      limit: 1,
      windowSeconds: 30,
      enabled: true,
    });
    expect(id).toMatch(/^[0-9a-f-]{36}$/);
    expect(name).toMatch(/^rule-[0-9a-f]{8}$/);
    expect([ordinal, revision].every(Number.isSafeInteger)).toBe(true);
    expect(createdAt).toEqual(updatedAt);
  });
});

it('a concurrency rule whose seats were too short gets the shortest allowed time in the migration', async () => {
  const file = new URL('../../drizzle/0010_shortest-lease.sql', import.meta.url);
  const statements = readFileSync(file, 'utf8').split('--> statement-breakpoint');
  await client.query('begin');
  try {
    await client.query('alter table rules drop constraint rules_leases_last');
    for (const [name, window] of [
      ['short', 2],
      ['long', 60],
    ] as const)
      await insert('rules', { name, algorithm: 'concurrency', window_seconds: window });
    await insert('rules', { name: 'other', window_seconds: 2 });
    for (const statement of statements) await client.query(statement);
    const { rows } = await client.query(
      `select name, window_seconds as window from rules where name in ('short', 'long', 'other') order by name`,
    );
    expect(rows).toEqual([
      { name: 'long', window: 60 },
      { name: 'other', window: 2 },
      { name: 'short', window: 30 },
    ]);
  } finally {
    await client.query('rollback');
  }
});
