// Migrations on various databases: a new one, one with tables of others, and one that an earlier version used when all
// tables were in `public`.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { drizzle } from 'drizzle-orm/node-postgres';
import { migrate } from 'drizzle-orm/node-postgres/migrator';
import pg from 'pg';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { applyMigrations } from '../../local/migrations.ts';
import { createFreshDatabase } from '../shared/database.ts';
import { migrateAsBefore, migrationsBefore, OWN_SCHEMA } from './former-version.ts';

const EVENTS_RULE = '0024_records-by-rule-and-ended-sessions';

let cleanup: AsyncDisposableStack;
let scratch: string;
let url: string;
let client: pg.Client;

beforeEach(async () => {
  cleanup = new AsyncDisposableStack();
  scratch = mkdtempSync(join(tmpdir(), 'weir-migrations-'));
  cleanup.defer(() => rmSync(scratch, { recursive: true }));
  url = cleanup.use(await createFreshDatabase('empty')).url;
  client = await connect();
});
afterEach(() => cleanup.disposeAsync());

async function connect(): Promise<pg.Client> {
  const one = new pg.Client({ connectionString: url });
  await one.connect();
  cleanup.defer(() => one.end());
  return one;
}

const values = async (query: string, on = client) =>
  (await on.query({ text: query, rowMode: 'array' })).rows.map(([value]: unknown[]) => value);
const tablesIn = (schema: string) =>
  values(`select table_name from information_schema.tables where table_schema = '${schema}' order by 1`);
const RULE = `(name, resource, scope, algorithm, "limit", window_seconds) values ('mine', '/x', 'ip', 'gcra', 1, 1)`;

/** Files of a team, in a folder of its own. */
function rulesFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(scratch, 'rules-'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return folder;
}

const PUBLISHED = `insert into last_publication values (1, 7, '7 a b', 'f', now(), 100)`;

it('a new database gets everything in the schema weir, even if other tables have the same names', async () => {
  await client.query(
    `create table users (mine text); create table rules (mine text); create sequence revisions`,
  );
  await applyMigrations(url);
  expect(await tablesIn('public')).toEqual(['rules', 'users']);
  expect(await tablesIn('weir')).toEqual(expect.arrayContaining(['migrations', 'rules', 'users', 'events']));
  expect(await values('select last_value from public.revisions')).toEqual(['1']);
  const { rows } = await client.query(`select nspname as schema, count(*)::int from pg_proc
    join pg_namespace on pg_namespace.oid = pronamespace where proname like 'weir_%' group by 1`);
  expect(rows).toEqual([{ schema: 'weir', count: 8 }]);
});

it('migrations of others in drizzle-kit’s default table are left alone and cause no conflict', async () => {
  await client.query(`create schema drizzle;
    create table drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint);
    insert into drizzle.__drizzle_migrations (hash, created_at) values ('theirs', 9999999999999)`);
  const { applied } = await applyMigrations(url);
  expect(applied[0]).toBe('drizzle/0000_rules');
  expect((await applyMigrations(url)).applied).toEqual([]);
  expect(await values('select hash from drizzle.__drizzle_migrations')).toEqual(['theirs']);
});

it('a database of the previous version keeps its rows, revisions, history and numbers', async () => {
  await migrateAsBefore(client, scratch);
  await client.query(
    `insert into rules ${RULE}; update rules set "limit" = 2 where name = 'mine'; ${PUBLISHED}`,
  );
  const before = await client.query('select * from rules order by id');
  const [change] = await values('select max(change_id) from history');
  const { applied } = await applyMigrations(url);
  expect(applied[0]).toBe(`drizzle/${OWN_SCHEMA}`);
  expect(await tablesIn('public')).toEqual([]);
  // Later migrations may have added columns.
  expect((await client.query('select * from weir.rules order by id')).rows).toMatchObject(before.rows);
  expect(await values('select count(*)::int from weir.migrations')).toEqual([18 + applied.length]);
  expect((await applyMigrations(url)).applied).toEqual([]);

  await client.query(`update weir.rules set "limit" = 3 where name = 'mine'`);
  expect(Number((await values('select max(change_id) from weir.history'))[0])).toBe(Number(change) + 1);
  await client.query(`select weir.weir_rollback(max(change_id), false) from weir.history`);
  expect(await values(`select "limit"::int from weir.rules where name = 'mine'`)).toEqual([2]);
});

it('an index that was built beforehand is used, unless Postgres has not finished it', async () => {
  await applyMigrations(url, { own: migrationsBefore(EVENTS_RULE, scratch) });
  await client.query('create index concurrently events_rule on weir.events (rule_id, at)');
  const built = await values(`select 'weir.events_rule'::regclass::oid`);
  const mark = (isValid: boolean) =>
    client.query(`update pg_index set indisvalid = ${isValid} where indexrelid = ${built[0]}`);
  await mark(false);
  await expect(applyMigrations(url)).rejects.toThrow('weir.events_rule');
  await mark(true);
  expect((await applyMigrations(url)).applied[0]).toBe(`drizzle/${EVENTS_RULE}`);
  expect(await values(`select 'weir.events_rule'::regclass::oid`)).toEqual(built);
});

it.each(["''", 'public', 'other, weir'])(
  'the functions work with the search_path %s, beside tables of the same names',
  async (path) => {
    await applyMigrations(url);
    await client.query('create schema other');
    for (const schema of ['public', 'other'])
      for (const table of ['rules', 'tiers', 'history', 'change', 'revisions'])
        await client.query(`create table ${schema}.${table} (mine text)`);
    await client.query(`set search_path = ${path}`);
    await client.query(`insert into weir.rules ${RULE}`);
    await client.query(
      `begin; update weir.rules set "limit" = 2; insert into weir.tiers (name) values ('a'); commit`,
    );
    const [first, second] = await values('select change_id from weir.history order by id desc limit 2');
    expect(first).toBe(second);
    await client.query(`select weir.weir_rollback(max(change_id), false) from weir.history`);
    expect(await values(`select "limit"::int from weir.rules where name = 'mine'`)).toEqual([1]);
    expect(await values('select name from weir.tiers')).toEqual([]);
  },
);

it('after the migration, a Worker of the previous version finds everything without naming the schema', async () => {
  await migrateAsBefore(client, scratch);
  await client.query(PUBLISHED);
  await applyMigrations(url);
  const before = await connect();
  await before.query(`insert into rules ${RULE} on conflict (name) do nothing`);
  await before.query('begin; lock table tiers, rules, routes in share row exclusive mode; commit');
  expect(await values(`select nextval('publications')::int`, before)).toEqual([1]);
  expect(await values(`select weir_rollback(max(change_id), false) from history`, before)).toEqual([1]);
});

it('a table of another program comes before Weir’s table of the same name', async () => {
  await migrateAsBefore(client, scratch);
  await client.query(PUBLISHED);
  await applyMigrations(url);
  const other = await connect();
  await other.query(`create table usage (mine int)`);
  expect(await values(`select 'usage'::regclass::text = 'usage'`, other)).toEqual([true]);
  expect(await tablesIn('public')).toEqual(['usage']);
});

it('a new database keeps its search_path', async () => {
  await applyMigrations(url);
  expect(await values('show search_path', await connect())).toEqual(['"$user", public']);
});

it('a team’s own rules are applied once, after Weir’s migrations, in the order of their names', async () => {
  const rules = rulesFolder({
    '0001_more.sql': `update rules set "limit" = 5 where name = 'mine'`,
    // Weir's migrations use the same number and name.
    '0000_rules.sql': `insert into rules ${RULE};--> statement-breakpoint\nupdate weir.rules set priority = 7;`,
    'notes.md': 'not SQL',
  });
  const { applied } = await applyMigrations(url, { rules });
  expect(applied.slice(-2)).toEqual(['rules/0000_rules', 'rules/0001_more']);
  expect(await values(`select "limit"::int from weir.rules where name = 'mine'`)).toEqual([5]);
  await client.query(`update weir.rules set "limit" = 9 where name = 'mine'`);
  expect(await applyMigrations(url, { rules })).toEqual({ applied: [], edited: [] });
  expect(await values(`select "limit"::int from weir.rules where name = 'mine'`)).toEqual([9]);
});

it('a team’s file that was merged late is applied, even after a later file', async () => {
  await applyMigrations(url, { rules: rulesFolder({ '0002_b.sql': 'select 1' }) });
  const rules = rulesFolder({ '0002_b.sql': 'select 1', '0001_a.sql': `insert into rules ${RULE}` });
  expect((await applyMigrations(url, { rules })).applied).toEqual(['rules/0001_a']);
});

it('a team’s file that was edited after it was applied is reported and not applied again', async () => {
  await applyMigrations(url, { rules: rulesFolder({ '0000_a.sql': `insert into rules ${RULE}` }) });
  const rules = rulesFolder({ '0000_a.sql': `insert into rules ${RULE} -- more` });
  expect(await applyMigrations(url, { rules })).toEqual({ applied: [], edited: ['rules/0000_a'] });
});

it('a team’s file that Postgres refuses is named, and no file of the folder is applied', async () => {
  const rules = rulesFolder({
    '0000_a.sql': `insert into rules ${RULE}`,
    '0001_b.sql': 'insert into nowhere',
  });
  await expect(applyMigrations(url, { rules })).rejects.toThrow(
    'rules/0001_b.sql: syntax error at end of input. Nothing of rules/ was applied',
  );
  expect(await values(`select name from weir.rules where name = 'mine'`)).toEqual([]);
});

it('a rule that was applied from drizzle/ and moved to rules/ is not applied again', async () => {
  const before = await migrateAsBefore(client, scratch);
  const text = `insert into rules ${RULE}`;
  const folder = rulesFolder({ '0018_mine.sql': text });
  writeFileSync(join(before, '0018_mine.sql'), text);
  const file = join(before, 'meta/_journal.json');
  const journal = JSON.parse(readFileSync(file, 'utf8')) as { entries: object[] };
  journal.entries.push({ idx: 18, version: '7', when: 1794890369999, tag: '0018_mine', breakpoints: true });
  writeFileSync(file, JSON.stringify(journal));
  await migrate(drizzle(client), { migrationsFolder: before });

  const { applied } = await applyMigrations(url, { rules: folder });
  expect(applied).not.toContain('rules/0018_mine');
  expect(await values(`select name from weir.rules where name = 'mine'`)).toEqual(['mine']);
});
