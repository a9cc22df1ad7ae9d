// A database that was dumped and restored: transaction ids start over, but the change ids of its history must not.
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startDatabase } from './database.ts';

const stack = new AsyncDisposableStack();
let from: pg.Client;
let to: pg.Client;
beforeAll(async () => {
  from = await connect();
  to = await connect();
});
afterAll(() => stack.disposeAsync());

async function connect(): Promise<pg.Client> {
  const { url } = stack.use(await startDatabase());
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  stack.defer(() => client.end());
  return client;
}

const one = async <T>(client: pg.Client, query: string): Promise<T> =>
  Object.values((await client.query(query)).rows[0])[0] as T;
const addRule = (client: pg.Client, name: string) =>
  client.query(
    `insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ($1, '/x', 'ip', 'gcra', 1, 1)`,
    [name],
  );
const lastChange = async (client: pg.Client) =>
  Number(await one<string>(client, 'select change_id from history order by id desc limit 1'));

/** Like pg_dump and pg_restore: rows without triggers, and the value of each sequence. */
async function restore(): Promise<void> {
  await to.query('set session_replication_role = replica');
  for (const table of ['rules', 'history']) {
    await to.query(`truncate ${table}`);
    const { rows } = await from.query(`select json_agg(t) as rows from ${table} t`);
    await to.query(
      `insert into ${table} overriding system value select * from json_populate_recordset(null::${table}, $1)`,
      [JSON.stringify(rows[0].rows)],
    );
  }
  const { rows } = await from.query(
    `select sequencename as name, last_value as value from pg_sequences where schemaname = 'weir' and last_value is not null`,
  );
  for (const { name, value } of rows) await to.query('select setval($1, $2)', [name, value]);
  await to.query('set session_replication_role = origin');
}

// Both databases are on one server, which numbers the transactions of both, so no two have the same number.
it('change ids are consecutive, even if other transactions came between', async () => {
  await addRule(from, 'earlier');
  const change = await lastChange(from);
  for (let i = 0; i < 10; i += 1) await from.query('select pg_current_xact_id()');
  await addRule(from, 'later');
  expect(await lastChange(from)).toBe(change + 1);
});

it('a change after a restore has an id of its own, and its rollback undoes nothing else', async () => {
  await addRule(from, 'before');
  const change = await lastChange(from);
  await restore();
  await addRule(to, 'after');
  expect(await lastChange(to)).toBe(change + 1);
  expect(await one(to, `select weir_rollback(${await lastChange(to)}, false)`)).toBe(1);
  expect((await to.query(`select name from rules where name in ('before', 'after')`)).rows).toEqual([
    { name: 'before' },
  ]);
});

it('all rows of one transaction have the same id, and the next transaction has another', async () => {
  const ids = async () =>
    (await from.query('select change_id from history order by id desc limit 4')).rows.map((row) =>
      Number(row.change_id),
    );
  await from.query('begin');
  await addRule(from, 'a');
  await addRule(from, 'b');
  await from.query('savepoint here');
  await addRule(from, 'c');
  await from.query('rollback to here');
  await addRule(from, 'd');
  await from.query('commit');
  await addRule(from, 'e');
  const [e, d, b, a] = await ids();
  expect([b, d]).toEqual([a, a]);
  expect(e).toBeGreaterThan(a ?? 0);
});

it('a change that begins in a rolled-back savepoint still has an id', async () => {
  await from.query('begin');
  await from.query('savepoint here');
  await addRule(from, 'taken back');
  await from.query('rollback to here');
  await addRule(from, 'f');
  await addRule(from, 'g');
  await from.query('commit');
  const { rows } = await from.query('select change_id from history order by id desc limit 3');
  expect(rows[0].change_id).toBe(rows[1].change_id);
  expect(rows[1].change_id).not.toBe(rows[2].change_id);
});
