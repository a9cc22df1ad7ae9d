// A database that was in use for a while, and then gets the later migrations.
import { readdirSync, readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startNeonGateway } from '../../local/neon-gateway/server.ts';
import { decodeSnapshot, joinSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';
import { createRuleReader } from '../../src/rules/publishing/rule-reader.ts';
import { createDatabase, type Database } from '../../src/rules/tables/repository.ts';
import { createFreshDatabase } from '../shared/database.ts';

const FOLDER = new URL('../../drizzle/', import.meta.url);
const MIGRATIONS = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.sql'))
  .sort();
const BEFORE = MIGRATIONS.findIndex((name) => name.endsWith('_publication-record.sql'));

const cleanup = new AsyncDisposableStack();
let database: Database;
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
/** The limits of this rule that a publication brings into force, and the rows that it would leave out. */
const inForce = async (name: string) => {
  const { content, texts, rejected } = await createRuleReader(database, { now: () => Date.now() }).read({});
  const text = joinSnapshot({ ...content, rules: texts });
  const snapshot = await decodeSnapshot(await versionOf(text), text);
  return { limits: snapshot?.rulesNamed({ rule: name }).map(({ rule }) => rule.limits[0]?.limit), rejected };
};

beforeAll(async () => {
  const { url } = cleanup.use(await createFreshDatabase('empty'));
  const neon = await startNeonGateway({ port: 0, databaseUrl: url });
  cleanup.defer(() => neon.stop());
  database = createDatabase({ url, httpEndpoint: neon.fetchEndpoint });
  db = new pg.Client({ connectionString: url });
  await db.connect();
  cleanup.defer(() => db.end());
  await migrate(MIGRATIONS.slice(0, BEFORE));
  await addRule('old');
  await addRule('rings\u0007');
  await migrate(MIGRATIONS.slice(BEFORE));
  await db.query('set search_path = weir');
});
afterAll(() => cleanup.disposeAsync());

it('a change from before the upgrade can still be rolled back, and new changes have higher numbers', async () => {
  await addRule('new');
  expect(await changeOf('new')).toBeGreaterThan(await changeOf('rings\u0007'));
  await rollBack(await changeOf('old'));
  expect(await names()).toEqual(['new', 'rings\u0007']);
  await rollBack(await changeOf('old'));
  expect(await names()).toEqual(['new', 'old', 'rings\u0007']);
});

it('a rule with a control character in its name survives the migration; its next change must rename it', async () => {
  expect(await inForce('rings\u0007')).toEqual({ limits: [1], rejected: [] });
  await expect(db.query(`update rules set "limit" = 2 where name like 'rings%'`)).rejects.toThrow(
    'rules_name_has_no_control_characters',
  );
  expect(await inForce('rings\u0007')).toEqual({ limits: [1], rejected: [] });
  await db.query(`update rules set "limit" = 2, name = 'rings' where name like 'rings%'`);
  expect(await names()).toContain('rings');
  expect(await inForce('rings')).toEqual({ limits: [2], rejected: [] });
});

it('a new rule cannot have a control character in its name', async () => {
  for (const name of ['bell\u0007', ...['\n', '\u007f', '\u0085', '\u2028'].map((one) => `a${one}b`)])
    await expect(addRule(name)).rejects.toThrow('rules_name_has_no_control_characters');
  await addRule('ünï\u00a0©');
});
