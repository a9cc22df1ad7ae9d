// The unmodified Neon driver against the gateway.
import { NeonDbError, neon, neonConfig, types } from '@neondatabase/serverless';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type NeonGateway, startNeonGateway } from '../../local/neon-gateway/server.ts';
import { freePort } from '../../local/ports.ts';
import { createFreshDatabase, type FreshDatabase } from '../shared/database.ts';

/** The number of this Postgres type. */
const TIMESTAMPTZ = 1184;

const CONNECTION_STRING = 'postgresql://weir:secret@db.example.test/weir';
const sql = neon(CONNECTION_STRING);
let postgres: FreshDatabase;
let gateway: NeonGateway;

beforeAll(async () => {
  postgres = await createFreshDatabase('empty');
  gateway = await startNeonGateway({ port: await freePort(), databaseUrl: postgres.url });
  neonConfig.fetchEndpoint = gateway.fetchEndpoint;
  await sql`create table accounts (
    id serial primary key, owner text not null unique, balance int not null default 0 check (balance >= 0))`;
});
afterAll(async () => {
  await gateway.stop();
  await postgres[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await sql`truncate accounts restart identity`;
});

async function failureOf(promise: Promise<unknown>): Promise<NeonDbError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(NeonDbError);
  return error as NeonDbError;
}

describe('for queries, the gateway', () => {
  it('answers a tagged template with typed rows', async () => {
    const rows =
      await sql`select ${1}::int as one, ${'two'} as two, ${null}::text as nothing, ${true}::bool as yes`;
    expect(rows).toEqual([{ one: 1, two: 'two', nothing: null, yes: true }]);
  });

  it('answers sql.query with positional parameters', async () => {
    expect(await sql.query('select $1::int + $2::int as sum', [2, 3])).toEqual([{ sum: 5 }]);
  });

  it('answers in array mode, and keeps two columns of the same name', async () => {
    const rows = await sql.query('select 1 as a, 2 as a', [], { arrayMode: true });
    expect(rows).toEqual([[1, 2]]);
  });

  it('gives full results: command, count and the description of each column', async () => {
    const full = await sql.query("insert into accounts (owner) values ('a'), ('b') returning id, owner", [], {
      fullResults: true,
    });
    expect(full).toMatchObject({
      command: 'INSERT',
      rowCount: 2,
      rows: [
        { id: 1, owner: 'a' },
        { id: 2, owner: 'b' },
      ],
      fields: [
        { name: 'id', dataTypeID: 23, columnID: 1, dataTypeSize: 4, dataTypeModifier: -1, format: 'text' },
        {
          name: 'owner',
          dataTypeID: 25,
          columnID: 2,
          dataTypeSize: -1,
          dataTypeModifier: -1,
          format: 'text',
        },
      ],
    });
    expect(full.fields[0]?.tableID).toBeGreaterThan(0);
  });

  it.each([
    ['select 1 where false', 'SELECT', 0],
    ["insert into accounts (owner) values ('x')", 'INSERT', 1],
    ['update accounts set balance = 1', 'UPDATE', 0],
    ['delete from accounts', 'DELETE', 0],
    ['create table if not exists made (a int)', 'CREATE', null],
    ['show timezone', 'SHOW', null],
    ['', '', null],
  ])('tags %j as %s with row count %s', async (text, command, rowCount) => {
    expect(await sql.query(text, [], { fullResults: true })).toMatchObject({ command, rowCount });
  });

  it.each([
    ['numbers', 'select $1::float8 as v', 1.5, 1.5],
    [
      'negative zero and large integers as text',
      'select $1::int8 as v',
      '9007199254740993',
      '9007199254740993',
    ],
    ['booleans', 'select $1::bool as v', false, false],
    ['objects as jsonb', 'select $1::jsonb as v', { a: [1, { b: 'ü"\\' }] }, { a: [1, { b: 'ü"\\' }] }],
    [
      'arrays of text',
      'select $1::text[] as v',
      ['a', 'b,"c"', '{}', '\\', ''],
      ['a', 'b,"c"', '{}', '\\', ''],
    ],
    ['arrays with null', 'select $1::int[] as v', [1, null, 3], [1, null, 3]],
    ['nested arrays', 'select $1::int[][] as v', [[1], [2]], [[1], [2]]],
    ['bytes', 'select $1::bytea as v', Buffer.from([0, 255, 92]), Buffer.from([0, 255, 92])],
    ['text of every plane', 'select $1::text as v', 'é 漢 🦦 \n\t', 'é 漢 🦦 \n\t'],
  ])('takes %s as parameters', async (_what, text, parameter, expected) => {
    expect(await sql.query(text, [parameter])).toEqual([{ v: expected }]);
  });

  it('parses a timestamp with time zone into the same instant', async () => {
    // Once loaded, Drizzle makes the driver return timestamps as text, for all code of this process.
    types.setTypeParser(TIMESTAMPTZ, (text) => new Date(text));
    const instant = new Date('2026-02-03T04:05:06.789Z');
    expect(await sql`select ${instant}::timestamptz as at`).toEqual([{ at: instant }]);
  });

  it('refuses two statements in one query, with or without parameters', async () => {
    for (const values of [[], [1]]) {
      const error = await failureOf(sql.query(`select ${values.length ? '$1::int' : '1'}; select 2`, values));
      expect(error).toMatchObject({ code: '42601' });
      expect(error.message).toBe('cannot insert multiple commands into a prepared statement');
    }
  });
});

describe('an error', () => {
  it('carries the code, constraint, table and detail of a violated constraint', async () => {
    await sql`insert into accounts (owner) values ('a')`;
    expect(await failureOf(sql`insert into accounts (owner) values ('a')`)).toMatchObject({
      message: 'duplicate key value violates unique constraint "accounts_owner_key"',
      code: '23505',
      severity: 'ERROR',
      constraint: 'accounts_owner_key',
      detail: 'Key (owner)=(a) already exists.',
      schema: 'public',
      table: 'accounts',
      column: undefined,
    });
  });

  it('carries the column of a missing value, and the position and hint of a bad name', async () => {
    expect(await failureOf(sql`insert into accounts (owner) values (null)`)).toMatchObject({
      code: '23502',
      column: 'owner',
    });
    expect(await failureOf(sql`select balanc from accounts`)).toMatchObject({
      code: '42703',
      position: '8',
      hint: expect.stringContaining('accounts.balance'),
    });
  });

  it('carries the text of an error raised by a function', async () => {
    const error = await failureOf(
      sql`do $$ begin raise exception 'stop' using errcode = 'WE001', hint = 'why', detail = 'what'; end $$`,
    );
    expect(error).toMatchObject({ message: 'stop', code: 'WE001', hint: 'why', detail: 'what' });
    expect(error.where).toContain('PL/pgSQL');
  });
});

describe('for transactions, the gateway', () => {
  it('runs all queries of a transaction and answers each', async () => {
    const [inserted, counted] = await sql.transaction([
      sql`insert into accounts (owner) values ('a') returning id`,
      sql`select count(*)::int as count from accounts`,
    ]);
    expect([inserted, counted]).toEqual([[{ id: 1 }], [{ count: 1 }]]);
  });

  it('undoes everything when one query fails', async () => {
    const failing = sql.transaction([
      sql`insert into accounts (owner) values ('a')`,
      sql`update accounts set balance = -1`,
      sql`insert into accounts (owner) values ('b')`,
    ]);
    expect(await failureOf(failing)).toMatchObject({ code: '23514', constraint: 'accounts_balance_check' });
    expect(await sql`select * from accounts`).toEqual([]);
  });

  it('undoes everything when a deferred constraint fails at commit', async () => {
    await sql`create table if not exists tickets (
      account int references accounts (id) deferrable initially deferred)`;
    const failing = sql.transaction([
      sql`insert into accounts (owner) values ('a')`,
      sql`insert into tickets values (99)`,
    ]);
    expect(await failureOf(failing)).toMatchObject({ code: '23503' });
    expect(await sql`select * from accounts`).toEqual([]);
    await sql`drop table tickets`;
  });

  it.each([
    ['ReadUncommitted', 'read uncommitted'],
    ['ReadCommitted', 'read committed'],
    ['RepeatableRead', 'repeatable read'],
    ['Serializable', 'serializable'],
  ] as const)('runs at the isolation level %s', async (isolationLevel, expected) => {
    const [rows] = await sql.transaction([sql`show transaction_isolation`], { isolationLevel });
    expect(rows).toEqual([{ transaction_isolation: expected }]);
  });

  it('runs read-only and deferrable, and the next request is neither', async () => {
    const options = { isolationLevel: 'Serializable', readOnly: true, deferrable: true } as const;
    const [readOnly, deferrable] = await sql.transaction(
      [sql`show transaction_read_only`, sql`show transaction_deferrable`],
      options,
    );
    expect([readOnly, deferrable]).toEqual([
      [{ transaction_read_only: 'on' }],
      [{ transaction_deferrable: 'on' }],
    ]);
    const writing = sql.transaction([sql`insert into accounts (owner) values ('a')`], options);
    expect(await failureOf(writing)).toMatchObject({ code: '25006' });
    expect(await sql`show transaction_read_only`).toEqual([{ transaction_read_only: 'off' }]);
  });

  it('gives full results and arrays in a transaction', async () => {
    const results = await sql.transaction([sql`select 1 as a, 2 as b`], {
      arrayMode: true,
      fullResults: true,
    });
    expect(results[0]).toMatchObject({ rows: [[1, 2]], command: 'SELECT', rowCount: 1 });
  });

  it('keeps concurrent transactions and single queries apart', async () => {
    await sql`insert into accounts (owner, balance) values ('from', 100), ('to', 0)`;
    const move = (amount: number) =>
      sql.transaction([
        sql`update accounts set balance = balance + ${amount} where owner = 'to'`,
        sql`update accounts set balance = balance - ${amount} where owner = 'from'`,
      ]);
    const total = async () => (await sql`select sum(balance)::int as total from accounts`)[0]?.['total'];
    const [moves, totals] = await Promise.all([
      Promise.allSettled(Array.from({ length: 20 }, () => move(10))),
      Promise.all(Array.from({ length: 20 }, total)),
    ]);
    expect(moves.filter(({ status }) => status === 'fulfilled')).toHaveLength(10);
    expect(new Set(totals)).toEqual(new Set([100]));
  });

  it('does not let a lone BEGIN reach the next requests', async () => {
    await sql`begin`;
    await sql`insert into accounts (owner) values ('kept')`;
    await sql`rollback`;
    expect(await sql`select owner from accounts`).toEqual([{ owner: 'kept' }]);
  });
});
