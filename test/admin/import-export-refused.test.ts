// An import that Weir refuses, or that another change interrupts: it is done as a whole or not at all.
import { beforeEach, describe, expect, test } from 'vitest';
import { importDocument } from '../../src/admin/import/document.ts';
import { importRules } from '../../src/admin/import/import.ts';
import type { Database } from '../../src/rules/tables/repository.ts';
import { TOKENS } from './harness.ts';
import { type Document, rule, useImports } from './import-export-harness.ts';

const { send, take, exported, stored, call, query, database } = useImports();

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

  test('if some of many rules are wrong, and all problems are named at once', async () => {
    const rules: object[] = many(100);
    rules[17] = rule('rule-17', { limit: 0 });
    rules[50] = rule('rule-50', { burst: 5 });
    rules[60] = { ...rule('rule-60'), limits: 5 };
    rules[70] = { name: 'rule-70' };
    rules[80] = { name: 'rule-80', resource: '/x', limit: 1, windowSeconds: 1, subjects: ['10.*'] };
    const answer = await refuse({ weir: 1, rules });
    expect(answer.slice(0, 2)).toEqual([400, 'invalid-body']);
    expect(answer[2]).toEqual([
      '#/rules/17/limit',
      '#/rules/50/burst',
      '#/rules/60/limits',
      ...['resource', 'limit', 'windowSeconds'].map((field) => `#/rules/70/${field}`),
      '#/rules/80/subjects',
    ]);
  });

  test.each<[string, Document, string[]]>([
    [
      'a rule has shares for regions that do not exist',
      { weir: 1, rules: [rule('a'), rule('b', { shares: { us: 1, mars: 1, 'a/b': 1 } })] },
      ['#/rules/1/shares/mars', '#/rules/1/shares/a~1b'],
    ],
    [
      'a rule has shares and is central',
      { weir: 1, rules: [rule('a', { shares: { us: 1 }, central: true })] },
      ['#/rules/0/shares'],
    ],
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

  test('if another tier, which is not in the document, is already the default', async () => {
    await take({ weir: 1, tiers: [{ name: 'free', isDefault: true }] });
    const document = { weir: 1, tiers: [{ name: 'pro', isDefault: true }] };
    expect(await refuse(document)).toEqual([400, 'invalid-body', ['#/tiers/0/isDefault']]);
  });

  test('if it would delete a tier that is still in use, and a dry run reports this', async () => {
    await take({ weir: 1, tiers: [{ name: 'free' }, { name: 'pro' }], rules: [rule('a')] });
    await query("insert into users (id, tier) values ('u1', 'pro')");
    const document = { weir: 1, tiers: [{ name: 'free' }], rules: [rule('b')] };
    expect(await refuse(document, '?mode=replace&dryRun=true')).toEqual([409, 'still-in-use', []]);
    expect(await refuse(document, '?mode=replace')).toEqual([409, 'still-in-use', []]);
    expect((await exported()).tiers).toHaveLength(2);
  });

  test('if rules have changed since the export, unless it is forced', async () => {
    await take({ weir: 1, rules: [rule('a')] });
    const document = await exported();
    await query('update rules set "limit" = 99');
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
    expect((await call('/export', { token: TOKENS.read.token })).status).toBe(200);
    expect(await stored()).toEqual([]);
  });
});

describe('an import whose rule is changed between reading and writing', () => {
  const change = (value: number) => query('update rules set "limit" = $1', [value]);
  const changeUnrecorded = async () => {
    await query('alter table rules disable trigger record');
    await change(99);
    await query('alter table rules enable trigger record');
  };
  const importing = (interrupt: (batches: number) => Promise<unknown>) =>
    importRules(interrupted(database(), interrupt), {
      document: importDocument.parse({ weir: 1, rules: [{ ...RULE_A, limit: 50, priority: 1 }] }),
      mode: 'merge',
      deployment: {
        regions: [],
        origins: { allowsPrivate: false, allowsPlainHttp: false, services: [] },
      },
      actor: 'alice',
      dryRun: false,
      force: false,
    });

  beforeEach(() => take({ weir: 1, rules: [RULE_A] }));

  // The first transaction reads, the second writes.
  test.each([
    ['in the usual way', () => change(99)],
    ['without a newer entry in the history', changeUnrecorded],
  ])('starts again if the change is made %s', async (_, interrupt) => {
    const { plan } = await importing(async (batches) => batches === 2 && interrupt());
    const rules = plan.collections.find(({ collection }) => collection.path === 'rules');
    expect(rules?.updated[0]?.changes['limit']).toEqual({ from: 99, to: 50 });
    expect((await stored())[0]).toMatchObject({ limit: '50', priority: 1 });
  });

  test('gives up if the rule is changed again and again, and writes nothing', async () => {
    const importedInVain = importing((batches) => change(100 + batches));
    await expect(importedInVain).rejects.toMatchObject({ problem: { status: 409, code: 'changed-since' } });
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

/** Runs `interrupt` before each transaction. */
function interrupted(database: Database, interrupt: (batches: number) => Promise<unknown>): Database {
  let batches = 0;
  const batch: Database['batch'] = async (queries) => {
    batches += 1;
    await interrupt(batches);
    return database.batch(queries);
  };
  return Object.assign(Object.create(database), { batch });
}
