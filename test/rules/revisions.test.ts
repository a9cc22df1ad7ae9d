// Revisions and the history, kept by triggers, and how isolates learn of changed callers because of them.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { selectRevisions, toRevisions } from '../../src/rules/publishing/content.ts';
import { DELETE_ALL, startDatabase, type TestDatabase } from './database.ts';

let db: TestDatabase;
let client: pg.Client;
beforeAll(async () => {
  db = await startDatabase();
  client = new pg.Client({ connectionString: db.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await db[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await run(DELETE_ALL);
});

async function run(statement: string, values: unknown[] = []): Promise<Record<string, string>[]> {
  return (await client.query(statement, values)).rows;
}
const recorded = () => run('select entity, entity_id, before, after, change_id from history order by id');

/** A row of each table that people edit: how to create it, to change it, and to update it without a change. */
const TABLES = [
  ['tiers', `(name) values ('pro')`, 'price_cents = 1', 'name = name, price_cents = 0'],
  ['tenants', `(id) values ('acme')`, `name = 'Acme'`, `name = ''`],
  ['users', `(id) values ('ann')`, `tier = 'free'`, 'tier = null'],
  ['api_keys', `(hash, prefix) values ('${'a'.repeat(64)}', 'p')`, 'disabled = true', 'disabled = false'],
  [
    'rules',
    `(resource, scope, algorithm, "limit", window_seconds) values ('/x', 'ip', 'gcra', 1, 1)`,
    '"limit" = 2',
    `methods = '{}', "limit" = 1`,
  ],
  ['list_entries', `(list, kind, value) values ('deny', 'user', 'eve')`, `reason = 'x'`, `reason = ''`],
] as const;

describe.each(TABLES)('a row of %s', (table, values, change, noChange) => {
  const revisionOf = async (statement: string) =>
    Number((await run(`${statement} returning revision`))[0]?.revision);
  beforeEach(() => run(`insert into tiers (name) values ('free')`));

  it('that is updated without a change keeps its revision, and writes no history', async () => {
    const revision = await revisionOf(`insert into ${table} ${values}`);
    const before = await run(`select * from ${table}`);
    const entries = await recorded();
    await run(`update ${table} set ${noChange}, updated_at = now() + interval '1 day', revision = 0`);
    expect(await run(`select * from ${table}`)).toEqual(before);
    expect(await recorded()).toEqual(entries);
    expect(before.some((row) => Number(row.revision) === revision)).toBe(true);
  });

  it('gets a new revision with every change, even if the row was deleted and created again', async () => {
    const seen: number[] = [];
    for (let round = 0; round < 2; round++) {
      seen.push(await revisionOf(`insert into ${table} ${values}`));
      for (const changed of [change, noChange, change]) {
        await run(`update ${table} set ${changed}, revision = 1 where revision = ${seen.at(-1)}`);
        seen.push(Number((await run(`select max(revision) as last from ${table}`))[0]?.last));
      }
      await run(`delete from ${table} where revision = ${seen.at(-1)}`);
    }
    expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
    expect(seen).toHaveLength(8);
  });

  it('has each change in the history, with the values before and after', async () => {
    await run('delete from history');
    await run(`insert into ${table} ${values}`);
    const idColumn = table === 'tiers' ? 'name' : 'id';
    const [made] = await run(
      `select to_jsonb(t) as row, ${idColumn}::text as id from ${table} t order by revision desc limit 1`,
    );
    const where = `where ${idColumn}::text = '${made?.id}'`;
    await run(`update ${table} set ${change} ${where}`);
    const [changed] = await run(`select to_jsonb(t) as row from ${table} t ${where}`);
    await run(`delete from ${table} ${where}`);
    const of = { entity: table, entity_id: made?.id };
    expect(await recorded()).toMatchObject([
      { ...of, before: null, after: made?.row },
      { ...of, before: made?.row, after: changed?.row },
      { ...of, before: changed?.row, after: null },
    ]);
    expect(new Set((await recorded()).map(({ change_id }) => change_id)).size).toBe(3);
  });
});

describe('callers that have changed', () => {
  const hash = (letter: string) => letter.repeat(64);
  /** Forgets everything that has happened so far. */
  const settle = () => run('delete from history');
  const told = async () => toRevisions((await selectRevisions(db.database)).rows, true);
  const changed = async () => Object.keys((await told()).revisions);

  // Ann and her key a belong to acme. Key b is hers alone, key c only acme's. Bob has key d. Zoe, of key e, is in no
  // table.
  beforeEach(async () => {
    await run(`insert into tiers (name) values ('free'), ('pro')`);
    await run(`insert into tenants (id, tier) values ('acme', 'pro'), ('globex', null)`);
    await run(`insert into users (id, tier, tenant_id) values ('ann', 'free', 'acme'), ('bob', null, null)`);
    await run(
      `insert into api_keys (hash, prefix, user_id, tenant_id, tier) values
        ($1, 'p', 'ann', 'acme', null), ($2, 'p', 'ann', null, null),
        ($3, 'p', null, 'acme', 'pro'), ($4, 'p', 'bob', null, null), ($5, 'p', 'zoe', null, null)`,
      ['a', 'b', 'c', 'd', 'e'].map(hash),
    );
    await settle();
  });

  it.each<[string, string, string[]]>([
    ['a key', `update api_keys set disabled = true where hash like 'a%'`, ['key:a']],
    ['a deleted key', `delete from api_keys where hash like 'a%'`, ['key:a']],
    ['a new key', `insert into api_keys (hash, prefix) values ('${hash('f')}', 'p')`, ['key:f']],
    [
      'a user and the keys it owns',
      `update users set tier = null where id = 'ann'`,
      ['key:a', 'key:b', 'user:ann'],
    ],
    ['a deleted user and its keys', `delete from users where id = 'bob'`, ['key:d', 'user:bob']],
    [
      'a new user with a tier and the keys it has already',
      `insert into users (id, tier) values ('zoe', 'pro')`,
      ['key:e', 'user:zoe'],
    ],
    ['none, for a new user without tier and tenant', `insert into users (id) values ('zoe')`, []],
    ['none, for a new tenant', `insert into tenants (id, tier) values ('initech', 'pro')`, []],
    [
      'a key under another hash, and the hash it had',
      `update api_keys set hash = '${hash('f')}' where hash like 'a%'`,
      ['key:a', 'key:f'],
    ],
    [
      'a user under another id, and the id it had',
      `update users set id = 'zoe' where id = 'bob'`,
      ['key:d', 'key:e', 'user:bob', 'user:zoe'],
    ],
    [
      'all users and keys of a tenant, and keys of its users',
      `update tenants set tier = null where id = 'acme'`,
      ['key:a', 'key:b', 'key:c', 'user:ann'],
    ],
    [
      'those that somebody has revoked',
      `insert into history (change_id, actor, entity, entity_id, after) values
        (1, 'a', 'callers', 'apiKey:k1', '{"id": "apiKey:k1"}')`,
      ['apiKey:k1'],
    ],
    ['none, for a changed tenant without callers', `update tenants set tier = 'pro' where id = 'globex'`, []],
    ['none, for a deleted tenant without callers', `delete from tenants where id = 'globex'`, []],
    [
      'none, for a changed price or limit of a tier',
      `update tiers set price_cents = 5, limits = '{"a": 1}'`,
      [],
    ],
    ['none, for an update that changes nothing', 'update users set tier = tier', []],
  ])('are %s', async (_, statement, callers) => {
    expect(await told()).toEqual({ epoch: '0', revisions: {}, onlyWeirKeys: true });
    await run(statement);
    expect((await changed()).map((caller) => caller.replace(/(.)\1{63}$/, '$1'))).toEqual(callers);
  });

  it('are all callers of a tier that was renamed, each with the change in the history', async () => {
    await run(`update tiers set name = 'premium' where name = 'pro'`);
    expect(await changed()).toEqual([...['a', 'b', 'c'].map((letter) => `key:${hash(letter)}`), 'user:ann']);
    const entries = await recorded();
    expect(entries.map(({ entity }) => entity).sort()).toEqual(['api_keys', 'tenants', 'tiers']);
    expect(new Set(entries.map(({ change_id }) => change_id)).size).toBe(1);
    for (const { entity, before, after } of entries) {
      const column = entity === 'tiers' ? 'name' : 'tier';
      expect([before, after]).toMatchObject([{ [column]: 'pro' }, { [column]: 'premium' }]);
    }

    await settle();
    await run(`update tiers set name = 'basic' where name = 'free'`);
    expect(await changed()).toEqual([`key:${hash('a')}`, `key:${hash('b')}`, 'user:ann']);
    expect(await run('select tier from users order by id')).toEqual([{ tier: 'basic' }, { tier: null }]);
  });

  it('have another revision after every change', async () => {
    const seen = new Set<string | undefined>();
    for (const statement of [
      `update users set tier = 'pro' where id = 'ann'`,
      `update users set tier = 'free' where id = 'ann'`,
      `update tenants set tier = null where id = 'acme'`,
      `delete from users where id = 'ann'`,
      `insert into users (id, tier) values ('ann', 'free')`,
    ]) {
      await run(statement);
      seen.add((await told()).revisions['user:ann']);
    }
    expect(seen.size).toBe(5);
    expect(seen).not.toContain(undefined);
  });

  it('have another revision even if an earlier record is committed later', async () => {
    const record = (id: number) =>
      run(
        `insert into history (id, change_id, actor, entity, entity_id, after) overriding system value
          values ($1, 1, 'x', 'users', 'ann', '{"id": "ann", "tier": "free"}')`,
        [id],
      );
    await record(2_000_000);
    const { revisions } = await told();
    await record(1_999_999);
    for (const caller of ['user:ann', `key:${hash('a')}`])
      expect((await told()).revisions[caller]).not.toBe(revisions[caller]);
  });

  it('are published for a quarter of an hour', async () => {
    await run(`update users set tier = 'pro' where id = 'bob'`);
    await run(`update history set at = now() - interval '14 minutes 50 seconds'`);
    expect(await changed()).toEqual([`key:${hash('d')}`, 'user:bob']);
    await run(`update history set at = now() - interval '15 minutes'`);
    expect(await changed()).toEqual([]);
  });

  it('are new keys for two minutes: an import of many makes isolates forget all callers no longer than that', async () => {
    await run(`insert into api_keys (hash, prefix) values ('${hash('f')}', 'p')`);
    await run(`update history set at = now() - interval '1 minute 50 seconds'`);
    expect(await changed()).toEqual([`key:${hash('f')}`]);
    await run(`update history set at = now() - interval '2 minutes'`);
    expect(await changed()).toEqual([]);
  });

  it('are all callers when there are more than 5,000, with another epoch after every change', async () => {
    await run(`insert into users (id, tier) select 'u' || n, 'free' from generate_series(1, 5000) n`);
    expect(await told()).toMatchObject({ epoch: '0', revisions: { 'user:u1': expect.any(String) } });
    expect(await changed()).toHaveLength(5_000);
    const epochs = ['0'];
    for (const statement of [
      `insert into users (id, tier) values ('one-more', 'free')`,
      `update users set tier = 'pro' where id = 'u7'`,
      `delete from users where id = 'u7'`,
    ]) {
      await run(statement);
      const { epoch, revisions } = await told();
      expect(revisions).toEqual({});
      epochs.push(epoch);
    }
    expect(new Set(epochs).size).toBe(4);
  });

  it('are all callers at once when a large tenant changes', async () => {
    await run(`insert into users (id, tenant_id) select 'u' || n, 'globex' from generate_series(1, 5001) n`);
    await settle();
    await run(`update tenants set tier = 'pro' where id = 'globex'`);
    const { epoch, revisions } = await told();
    expect(epoch).not.toBe('0');
    expect(revisions).toEqual({});
  });
});
