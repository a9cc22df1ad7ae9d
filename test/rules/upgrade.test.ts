// A database that was in use for a while, and then gets the later migrations.
import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

const FOLDER = new URL('../../drizzle/', import.meta.url);
const MIGRATIONS = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.sql'))
  .sort();
const BEFORE = MIGRATIONS.findIndex((name) => name.endsWith('_publication-record.sql'));

let postgres: FreshDatabase;
let db: pg.Client;
const migrate = async (names: readonly string[]) => {
  for (const name of names)
    for (const statement of readFileSync(new URL(name, FOLDER), 'utf8').split('--> statement-breakpoint'))
      await db.query(statement);
};
const addRule = (name: string) =>
  db.query(
    `insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ($1, '/x', 'ip', 'gcra', 1, 1)`,
    [name],
  );
const changeOf = async (name: string) => {
  const { rows } = await db.query<{ change_id: number }>(
    `select change_id from history where coalesce(after, before) ->> 'name' = $1 order by id desc limit 1`,
    [name],
  );
  return Number(rows[0]?.change_id);
};
const rollBack = (change: number) => db.query(`select weir_rollback($1, false)`, [change]);
const names = async () =>
  (await db.query<{ name: string }>(`select name from rules where resource = '/x' order by name`)).rows.map(
    ({ name }) => name,
  );

beforeAll(async () => {
  postgres = await createFreshDatabase('empty');
  db = new pg.Client({ connectionString: postgres.url });
  await db.connect();
  await migrate(MIGRATIONS.slice(0, BEFORE));
  await addRule('old');
  await addRule('rings\u0007');
  await migrate(MIGRATIONS.slice(BEFORE));
  await db.query('set search_path = weir');
});
afterAll(async () => {
  await db?.end();
  await postgres?.[Symbol.asyncDispose]();
});

it('a change from before the upgrade can still be rolled back, and new changes have higher numbers', async () => {
  await addRule('new');
  expect(await changeOf('new')).toBeGreaterThan(await changeOf('rings\u0007'));
  await rollBack(await changeOf('old'));
  expect(await names()).toEqual(['new', 'rings\u0007']);
  await rollBack(await changeOf('old'));
  expect(await names()).toEqual(['new', 'old', 'rings\u0007']);
});

it('a rule whose name has a control character survives the migration, and its next change must rename it', async () => {
  await expect(addRule('bell\u0007')).rejects.toThrow('rules_name_has_no_control_characters');
  for (const character of ['\n', '\u007f', '\u0085', '\u2028'])
    await expect(addRule(`a${character}b`)).rejects.toThrow('rules_name_has_no_control_characters');
  await addRule('ünï\u00a0©');
  await expect(db.query(`update rules set "limit" = 2 where name like 'rings%'`)).rejects.toThrow(
    'rules_name_has_no_control_characters',
  );
  await db.query(`update rules set "limit" = 2, name = 'rings' where name like 'rings%'`);
  expect(await names()).toContain('rings');
});
