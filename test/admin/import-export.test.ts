// All rules as one document: out and in again changes nothing, and an import is done as a whole or not at all.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Database } from '../../src/rules/database.ts';
import { importRules } from '../../src/rules/import.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

interface Document {
  readonly weir: 1;
  readonly basedOn?: number;
  readonly tiers?: Record<string, unknown>[];
  readonly rules?: Record<string, unknown>[];
}
interface Part {
  readonly created: string[];
  readonly updated: { name: string; changes: Record<string, { from: unknown; to: unknown }> }[];
  readonly deleted: string[];
  readonly unchanged: number;
}
interface Summary {
  readonly dryRun: boolean;
  readonly basedOn: number;
  readonly tiers: Part;
  readonly rules: Part;
  readonly warnings: string[];
}

const rule = (name: string, more: object = {}) => ({
  name,
  resource: `/${name}`,
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 10,
  windowSeconds: 60,
  ...more,
});

let admin: Admin;
let sql: pg.Client;
let publications = 0;
beforeAll(async () => {
  admin = await startAdmin({
    publish: async () => {
      publications += 1;
      return { version: 'v', changed: true, ruleCount: 0, rejected: [], warnings: [], regions: [] };
    },
  });
  sql = new pg.Client({ connectionString: admin.db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await admin[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await sql.query('delete from rules; delete from users; delete from tiers');
});

const send = (document: unknown, query = '', token?: string) =>
  admin.call(`/import${query}`, { method: 'POST', body: document, token });

async function take(document: Document, query = ''): Promise<Summary> {
  const response = await send(document, query);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Summary;
}

const exported = async () => (await (await admin.call('/export')).json()) as Required<Document>;
const stored = async () => (await sql.query('select * from rules order by name')).rows;
const EMPTY: Part = { created: [], updated: [], deleted: [], unchanged: 0 };

describe('an export', () => {
  test('has every rule and tier, in a stable order, without defaults, revisions and dates', async () => {
    await sql.query(
      `insert into tiers (name, limits, is_default) values ('pro', '{"calls": null}', false), ('free', '{}', true)`,
    );
    await sql.query(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds, enabled, methods)
      values ('b', '/b', 'ip', 'gcra', 5, 60, false, '{GET}'), ('a', '/a', 'user', 'fixed-window', 1, 1, true, '{}')`);
    const { basedOn, ...rest } = await exported();
    expect(rest).toEqual({
      weir: 1,
      tiers: [
        { name: 'free', isDefault: true },
        { name: 'pro', limits: { calls: null } },
      ],
      rules: [
        {
          id: expect.any(String),
          name: 'a',
          resource: '/a',
          scope: 'user',
          algorithm: 'fixed-window',
          limit: 1,
          windowSeconds: 1,
        },
        {
          id: expect.any(String),
          name: 'b',
          resource: '/b',
          scope: 'ip',
          algorithm: 'gcra',
          limit: 5,
          windowSeconds: 60,
          methods: ['GET'],
          enabled: false,
        },
      ],
    });
    const { rows } = await sql.query(
      `select max(id)::int as last from history where entity in ('rules', 'tiers')`,
    );
    expect(basedOn).toBe(rows[0].last);
  });

  test('taken in again changes nothing, in either mode', async () => {
    await take({
      weir: 1,
      tiers: [{ name: 'free', limits: { calls: 5 } }],
      rules: [rule('a'), rule('b', { limit: null, limitName: 'calls' })],
    });
    const [before, document] = [await stored(), await exported()];
    for (const mode of ['merge', 'replace'])
      expect(await take(document, `?mode=${mode}`)).toMatchObject({
        tiers: { ...EMPTY, unchanged: 1 },
        rules: { ...EMPTY, unchanged: 2 },
      });
    expect(await stored()).toEqual(before);
    expect(await exported()).toEqual(document);
  });
});

describe('an import', () => {
  test('says what it changes, field by field, and a dry run says the same and changes nothing', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b'), rule('c')] });
    const document: Document = {
      weir: 1,
      rules: [rule('a', { limit: 20, methods: ['GET'] }), rule('b'), rule('d')],
    };
    const [before, published] = [await stored(), publications];
    const planned = await take(document, '?dryRun=true');
    expect(planned).toMatchObject({
      dryRun: true,
      tiers: EMPTY,
      rules: {
        created: ['d'],
        updated: [
          { name: 'a', changes: { limit: { from: 10, to: 20 }, methods: { from: [], to: ['GET'] } } },
        ],
        deleted: [],
        unchanged: 2,
      },
    });
    expect(await stored()).toEqual(before);
    expect(publications).toBe(published);

    expect(await take(document)).toEqual({ ...planned, dryRun: false });
    expect(publications).toBe(published + 1);
    expect((await stored()).map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
    expect((await take(document, '?mode=replace')).rules).toEqual({ ...EMPTY, deleted: ['c'], unchanged: 3 });
    expect((await stored()).map(({ name }) => name)).toEqual(['a', 'b', 'd']);
  });

  test('knows a rule by its id, else by its name: a rename keeps id, order and age', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b')] });
    const [a, b] = await stored();
    const elsewhere = '00000000-0000-4000-8000-000000000001';
    await take({
      weir: 1,
      rules: [
        { ...rule('renamed'), id: a.id.toUpperCase() },
        { ...rule('b', { limit: 5 }), id: elsewhere },
      ],
    });
    const [after, renamed] = await stored();
    expect(renamed).toMatchObject({
      id: a.id,
      name: 'renamed',
      ordinal: a.ordinal,
      created_at: a.created_at,
    });
    expect(after).toMatchObject({ id: b.id, limit: '5' });
    await take({ weir: 1, rules: [{ ...rule('new'), id: elsewhere }] });
    expect((await stored()).find(({ name }) => name === 'new')?.id).toBe(elsewhere);
  });

  test('swaps names, moves them along a chain, and can be rolled back as a whole', async () => {
    await take({ weir: 1, rules: ['a', 'b', 'c', 'd', 'e'].map((name) => rule(name)) });
    const before = await stored();
    const [a, b, c, d, e] = before.map(({ id }) => id);
    const names = { [a]: 'b', [b]: 'a', [c]: 'd', [d]: 'e', [e]: 'f' };
    const document = {
      weir: 1 as const,
      rules: Object.entries(names).map(([id, name]) => ({ ...rule(name), id })),
    };
    expect((await take(document)).rules.updated).toHaveLength(5);
    const after = await stored();
    expect(Object.fromEntries(after.map(({ id, name }) => [id, name]))).toEqual(names);
    const places = (rows: typeof before) =>
      Object.fromEntries(rows.map((row) => [row.id, [row.ordinal, row.created_at]]));
    expect(places(after)).toEqual(places(before));

    const [entry] = (
      (await (await admin.call('/history?limit=1')).json()) as { items: { changeId: number }[] }
    ).items;
    const rolledBack = await admin.call(`/history/${entry?.changeId}/rollback`, { method: 'POST' });
    expect(rolledBack.status).toBe(200);
    const plain = (rows: typeof before) => rows.map(({ revision: _, updated_at: __, ...row }) => row);
    expect(plain(await stored())).toEqual(plain(before));
  });

  test('hands the name of a renamed rule to a new one', async () => {
    await take({ weir: 1, rules: [rule('a')] });
    const [a] = await stored();
    const { rules } = await take({ weir: 1, rules: [rule('a'), { ...rule('renamed'), id: a.id }] });
    expect(rules).toMatchObject({ created: ['a'], updated: [{ name: 'a' }] });
    const [created, renamed] = await stored();
    expect(renamed).toMatchObject({ id: a.id, name: 'renamed' });
    expect(created.id).not.toBe(a.id);
  });

  test('hands the name of a deleted rule to another one', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b')] });
    const [a] = await stored();
    await take({ weir: 1, rules: [{ ...rule('b'), id: a.id }] }, '?mode=replace');
    expect((await stored()).map(({ id, name }) => [id, name])).toEqual([[a.id, 'b']]);
  });

  test('passes the default on from one tier to another', async () => {
    await take({ weir: 1, tiers: [{ name: 'free', isDefault: true }, { name: 'pro' }] });
    await take({ weir: 1, tiers: [{ name: 'pro', isDefault: true }, { name: 'free' }] });
    await take({ weir: 1, tiers: [{ name: 'new', isDefault: true }, { name: 'pro' }] });
    const { rows } = await sql.query('select name from tiers where is_default');
    expect(rows).toEqual([{ name: 'new' }]);
  });

  test('leaves alone what the document does not speak of, even when it replaces', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }], rules: [rule('a')] });
    await take({ weir: 1, rules: [] }, '?mode=replace');
    expect((await exported()).tiers).toEqual([{ name: 'free' }]);
    expect((await exported()).rules).toEqual([]);
    await take({ weir: 1, tiers: [] }, '?mode=replace');
    expect((await exported()).tiers).toEqual([]);
  });

  test('is recorded as one change, by the one who made it', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }], rules: [rule('a'), rule('b')] });
    const { rows } = await sql.query(
      'select distinct change_id, actor from history order by change_id desc limit 1',
    );
    const entries = await sql.query('select entity from history where change_id = $1', [rows[0].change_id]);
    expect(rows[0].actor).toBe(TOKENS.admin.name);
    expect(entries.rows).toHaveLength(3);
  });
});

describe('nothing is written', () => {
  const refuse = async (document: unknown, query = '') => {
    const before = await stored();
    const response = await send(document, query);
    expect(await stored()).toEqual(before);
    const {
      status,
      code,
      errors = [],
    } = (await response.json()) as {
      status: number;
      code: string;
      errors?: { pointer: string }[];
    };
    return [status, code, [...new Set(errors.map(({ pointer }) => pointer))]];
  };
  const many = (count: number) => Array.from({ length: count }, (_, i) => rule(`rule-${i}`));

  test('if one of many rules is wrong: all that is wrong is told at once', async () => {
    const rules: object[] = many(100);
    rules[17] = rule('rule-17', { limit: 0 });
    rules[50] = rule('rule-50', { burst: 5 });
    rules[60] = { ...rule('rule-60'), limits: 5 };
    rules[70] = { name: 'rule-70' };
    const answer = await refuse({ weir: 1, rules });
    expect(answer.slice(0, 2)).toEqual([400, 'invalid-body']);
    expect(answer[2]).toEqual([
      '#/rules/17/limit',
      '#/rules/50/burst',
      '#/rules/60/limits',
      ...['resource', 'scope', 'algorithm', 'windowSeconds'].map((field) => `#/rules/70/${field}`),
    ]);
  });

  test.each<[string, Document, string[]]>([
    ['two rules have one name', { weir: 1, rules: [rule('a'), rule('b'), rule('a')] }, ['#/rules/2/name']],
    [
      'two rules have one id',
      {
        weir: 1,
        rules: ['a', 'b'].map((name) => ({ ...rule(name), id: '00000000-0000-4000-8000-000000000001' })),
      },
      ['#/rules/1/id'],
    ],
    ['two tiers have one name', { weir: 1, tiers: [{ name: 'a' }, { name: 'a' }] }, ['#/tiers/1/name']],
    [
      'two tiers are the default one',
      { weir: 1, tiers: ['a', 'b'].map((name) => ({ name, isDefault: true })) },
      ['#/tiers/1/isDefault'],
    ],
  ])('if %s', async (_, document, pointers) => {
    expect(await refuse(document)).toEqual([400, 'invalid-body', pointers]);
  });

  test('if a name belongs to a rule that is not in the document', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b')] });
    const [a] = await stored();
    const document = { weir: 1, rules: [{ ...rule('b'), id: a.id }] };
    expect(await refuse(document)).toEqual([400, 'invalid-body', ['#/rules/0/name']]);
  });

  test('if the default tier is one that is not in the document', async () => {
    await take({ weir: 1, tiers: [{ name: 'free', isDefault: true }] });
    const document = { weir: 1, tiers: [{ name: 'pro', isDefault: true }] };
    expect(await refuse(document)).toEqual([400, 'invalid-body', ['#/tiers/0/isDefault']]);
  });

  test('if a tier would go that is still in use, and a dry run tells it', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }, { name: 'pro' }], rules: [rule('a')] });
    await sql.query("insert into users (id, tier) values ('u1', 'pro')");
    const document = { weir: 1, tiers: [{ name: 'free' }], rules: [rule('b')] };
    expect(await refuse(document, '?mode=replace&dryRun=true')).toEqual([409, 'still-in-use', []]);
    expect(await refuse(document, '?mode=replace')).toEqual([409, 'still-in-use', []]);
    expect((await exported()).tiers).toHaveLength(2);
  });

  test('if rules have changed since the export, unless it is forced', async () => {
    await take({ weir: 1, rules: [rule('a')] });
    const document = await exported();
    await sql.query('update rules set "limit" = 99');
    expect(await refuse(document)).toEqual([409, 'changed-since', []]);
    expect((await take(document, '?force=true')).rules.updated).toHaveLength(1);
    expect((await stored())[0].limit).toBe('10');
  });

  test.each([[{}], [{ weir: 2, rules: [] }], [{ weir: 1, rule: [] }], [[]], ['text'], [null]])(
    'if the document is %j',
    async (document) => {
      expect((await refuse(document)).slice(0, 2)).toEqual([400, 'invalid-body']);
    },
  );

  test('with a token that may only read', async () => {
    expect((await send({ weir: 1, rules: [rule('a')] }, '', TOKENS.read.token)).status).toBe(403);
    expect((await send({ weir: 1, rules: [rule('a')] }, '?dryRun=true', TOKENS.read.token)).status).toBe(403);
    expect((await admin.call('/export', { token: TOKENS.read.token })).status).toBe(200);
    expect(await stored()).toEqual([]);
  });
});

describe('somebody else who changes a rule between reading and writing', () => {
  const change = (value: number) => sql.query('update rules set "limit" = $1', [value]);
  const changeUnrecorded = async () => {
    await sql.query('alter table rules disable trigger record');
    await change(99);
    await sql.query('alter table rules enable trigger record');
  };
  const importing = (interrupt: (batches: number) => Promise<unknown>) =>
    importRules(interrupted(admin.db.database, interrupt), {
      document: { weir: 1, rules: [{ ...RULE_A, limit: 50, priority: 1 }] },
      mode: 'merge',
      actor: 'alice',
      dryRun: false,
      force: false,
    });

  beforeEach(() => take({ weir: 1, rules: [RULE_A] }));

  // The first transaction reads, the second writes.
  test.each([
    ['in the usual way', () => change(99)],
    ['such that the history has nothing newer to tell', changeUnrecorded],
  ])('%s is noticed, and the import starts again', async (_, interrupt) => {
    const result = await importing(async (batches) => batches === 2 && interrupt());
    if (result.kind !== 'done') throw new Error(result.kind);
    expect(result.plan.rules.updated[0]?.changes.limit).toEqual({ from: 99, to: 50 });
    expect((await stored())[0]).toMatchObject({ limit: '50', priority: 1 });
  });

  test('again and again is told so, and nothing is written', async () => {
    const result = await importing((batches) => change(100 + batches));
    expect(result).toMatchObject({ kind: 'changed-since' });
    expect((await stored())[0]).toMatchObject({ limit: '104', priority: 100 });
  });
});

const RULE_A = {
  name: 'a',
  resource: '/a',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 10,
  windowSeconds: 60,
} as const;

/** Runs something before each transaction. */
function interrupted(database: Database, interrupt: (batches: number) => Promise<unknown>): Database {
  let batches = 0;
  const batch: Database['batch'] = async (queries) => {
    batches += 1;
    await interrupt(batches);
    return database.batch(queries);
  };
  return Object.assign(Object.create(database), { batch });
}

test('5,000 rules pass at once, as do 5,000 changes of them', async () => {
  const rules = Array.from({ length: 5_000 }, (_, i) =>
    rule(`rule-${i}`, { tiers: ['free'], message: 'x'.repeat(50) }),
  );
  expect((await take({ weir: 1, rules })).rules.created).toHaveLength(5_000);
  const changed = rules.map((one, i) => ({ ...one, limit: i + 1 }));
  expect((await take({ weir: 1, rules: changed })).rules.updated).toHaveLength(4_999);
  const { rows } = await sql.query('select count(*)::int as count, sum("limit")::int as total from rules');
  expect(rows).toEqual([{ count: 5_000, total: (5_000 * 5_001) / 2 }]);
  expect((await take({ weir: 1, rules: [] }, '?mode=replace')).rules.deleted).toHaveLength(5_000);
});
