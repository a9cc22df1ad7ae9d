// All rules as one document: exporting and importing it changes nothing, and an import says what it does.
import { describe, expect, test } from 'vitest';
import { TOKENS } from './harness.ts';
import { type Document, EMPTY, rule, useImports } from './import-export-harness.ts';

const { take, exported, stored, call, query, publications } = useImports();

describe('an export', () => {
  test('has every rule and tier, in a stable order, without defaults, revisions and dates', async () => {
    await query(
      `insert into tiers (name, limits, is_default) values ('pro', '{"calls": null}', false), ('free', '{}', true)`,
    );
    await query(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds, enabled, methods)
      values ('b', '/b', 'ip', 'gcra', 5, 60, false, '{GET}'), ('a', '/a', 'user', 'fixed-window', 1, 1, true, '{}')`);
    await query(`insert into rules (name, resource, "limit", window_seconds) values ('c', '/c', 5, 60)`);
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
          algorithm: 'gcra',
          limit: 5,
          windowSeconds: 60,
          methods: ['GET'],
          enabled: false,
        },
        { id: expect.any(String), name: 'c', resource: '/c', limit: 5, windowSeconds: 60 },
      ],
      routes: [],
      settings: { enforcement: 'on', fileExtensions: 'part' },
    });
    const { rows } = await query(
      `select max(id)::int as last from history where entity in ('rules', 'tiers')`,
    );
    expect(basedOn).toBe(rows[0].last);
  });

  test('that is imported again changes nothing, in either mode', async () => {
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

describe('shares', () => {
  const SHARED = [
    rule('central', { central: true }),
    rule('shared', { shares: { ap: 0, eu: 2, us: 0.5 }, spill: false }),
    rule('split'),
  ];

  test('survive an export and an import', async () => {
    await take({ weir: 1, rules: SHARED });
    await query(`update rules set shares = '{"us": 1}' where name = 'split'`);
    const document = await exported();
    expect(document.rules).toEqual(
      [...SHARED.slice(0, 2), { ...SHARED[2], shares: { us: 1 } }].map((said) => ({
        ...said,
        id: expect.any(String),
      })),
    );
    const before = await stored();
    for (const mode of ['merge', 'replace'])
      expect((await take(document, `?mode=${mode}`)).rules).toEqual({ ...EMPTY, unchanged: 3 });
    expect(await stored()).toEqual(before);
  });

  test('for a region that no longer exists are kept, and can be imported again', async () => {
    await take({ weir: 1, rules: [rule('a')] });
    await query(`update rules set shares = '{"us": 1, "mars": 1}'`);
    const document = await exported();
    expect((await take(document)).rules).toEqual({ ...EMPTY, unchanged: 1 });
    const [a] = document.rules;
    expect((await take({ weir: 1, rules: [{ ...a, limit: 7 }] })).rules.updated).toHaveLength(1);
  });
});

describe('an import', () => {
  test('lists what it changes, field by field; a dry run lists the same and changes nothing', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b'), rule('c')] });
    const document: Document = {
      weir: 1,
      rules: [rule('a', { limit: 20, methods: ['GET'] }), rule('b'), rule('d')],
    };
    const [before, published] = [await stored(), publications()];
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
    expect(publications()).toBe(published);

    expect(await take(document)).toEqual({ ...planned, dryRun: false });
    expect(publications()).toBe(published + 1);
    expect((await stored()).map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
    expect((await take(document, '?mode=replace')).rules).toEqual({ ...EMPTY, deleted: ['c'], unchanged: 3 });
    expect((await stored()).map(({ name }) => name)).toEqual(['a', 'b', 'd']);
  });

  test('finds a rule by its id, else by its name; a rename keeps id, order and age', async () => {
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

    const [entry] = ((await (await call('/history?limit=1')).json()) as { items: { changeId: number }[] })
      .items;
    const rolledBack = await call(`/history/${entry?.changeId}/rollback`, { method: 'POST' });
    expect(rolledBack.status).toBe(200);
    const plain = (rows: typeof before) => rows.map(({ revision: _, updated_at: __, ...row }) => row);
    expect(plain(await stored())).toEqual(plain(before));
  });

  test('gives the old name of a renamed rule to a new rule', async () => {
    await take({ weir: 1, rules: [rule('a')] });
    const [a] = await stored();
    const { rules } = await take({ weir: 1, rules: [rule('a'), { ...rule('renamed'), id: a.id }] });
    expect(rules).toMatchObject({ created: ['a'], updated: [{ name: 'a' }] });
    const [created, renamed] = await stored();
    expect(renamed).toMatchObject({ id: a.id, name: 'renamed' });
    expect(created.id).not.toBe(a.id);
  });

  test('gives the name of a deleted rule to another rule', async () => {
    await take({ weir: 1, rules: [rule('a'), rule('b')] });
    const [a] = await stored();
    await take({ weir: 1, rules: [{ ...rule('b'), id: a.id }] }, '?mode=replace');
    expect((await stored()).map(({ id, name }) => [id, name])).toEqual([[a.id, 'b']]);
  });

  test('passes the default on from one tier to another', async () => {
    await take({ weir: 1, tiers: [{ name: 'free', isDefault: true }, { name: 'pro' }] });
    await take({ weir: 1, tiers: [{ name: 'pro', isDefault: true }, { name: 'free' }] });
    await take({ weir: 1, tiers: [{ name: 'new', isDefault: true }, { name: 'pro' }] });
    const { rows } = await query('select name from tiers where is_default');
    expect(rows).toEqual([{ name: 'new' }]);
  });

  test('leaves alone the parts that the document does not have, even with mode=replace', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }], rules: [rule('a')] });
    await take({ weir: 1, rules: [] }, '?mode=replace');
    expect((await exported()).tiers).toEqual([{ name: 'free' }]);
    expect((await exported()).rules).toEqual([]);
    await take({ weir: 1, tiers: [] }, '?mode=replace');
    expect((await exported()).tiers).toEqual([]);
  });

  test('is recorded as one change, under the name of its actor', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }], rules: [rule('a'), rule('b')] });
    const { rows } = await query(
      'select distinct change_id, actor from history order by change_id desc limit 1',
    );
    const entries = await query('select entity from history where change_id = $1', [rows[0].change_id]);
    expect(rows[0].actor).toBe(TOKENS.admin.name);
    expect(entries.rows).toHaveLength(3);
  });
});

test('5,000 rules can be imported at once, and so can 5,000 changes', async () => {
  const rules = Array.from({ length: 5_000 }, (_, i) =>
    rule(`rule-${i}`, { tiers: ['free'], message: 'x'.repeat(50) }),
  );
  expect((await take({ weir: 1, rules })).rules.created).toHaveLength(5_000);
  const changed = rules.map((one, i) => ({ ...one, limit: i + 1 }));
  expect((await take({ weir: 1, rules: changed })).rules.updated).toHaveLength(4_999);
  const { rows } = await query('select count(*)::int as count, sum("limit")::int as total from rules');
  expect(rows).toEqual([{ count: 5_000, total: (5_000 * 5_001) / 2 }]);
  expect((await take({ weir: 1, rules: [] }, '?mode=replace')).rules.deleted).toHaveLength(5_000);
});
