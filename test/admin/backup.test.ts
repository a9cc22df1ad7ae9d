// A backup has everything but secrets in one document, and restores it into an empty database.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { hashApiKey } from '../../src/identity/api-key.ts';
import { findApiKey } from '../../src/identity/caller-rows.ts';
import { DELETE_ALL } from '../rules/database.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';
import { rule } from './import-export-harness.ts';

type Entry = Record<string, unknown>;
type Everything = Record<'tenants' | 'users' | 'keys' | 'lists' | 'tiers' | 'rules' | 'routes', Entry[]> & {
  readonly settings: Entry;
};

let admin: Admin;
let sql: pg.Client;
beforeAll(async () => {
  admin = await startAdmin();
  sql = new pg.Client({ connectionString: admin.db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await admin[Symbol.asyncDispose]();
});
beforeEach(() => sql.query(DELETE_ALL));

async function send(path: string, body: object): Promise<Entry> {
  const response = await admin.call(path, { method: 'POST', body });
  expect(response.status, await response.clone().text()).toBeLessThan(300);
  return (await response.json()) as Entry;
}
const find = async (key: string) => findApiKey(admin.db.database, await hashApiKey(key));
const everything = async () => (await (await admin.call('/export?everything=true')).json()) as Everything;
const sorted = (document: Everything) =>
  Object.fromEntries(
    Object.entries(document).map(([name, entries]) => [
      name,
      Array.isArray(entries) ? entries.map((entry) => JSON.stringify(entry)).sort() : entries,
    ]),
  );

describe('a backup of a database with everything in it', () => {
  let keys: { readonly id: unknown; readonly key: string }[];
  let foundBefore: unknown[];
  let backup: Everything;
  beforeAll(async () => {
    await send('/tiers', { name: 'pro', limits: { calls: 7 }, priceCents: 500, isDefault: true });
    await send('/tenants', { id: 'acme', name: 'Acme', tier: 'pro', anchorDay: 31 });
    await send('/users', { id: 'ann', tier: 'pro', tenantId: 'acme' });
    await send('/rules', rule('by tier', { limit: null, limitName: 'calls' }));
    // An override replaces the rule for one user and for a time.
    await send(
      '/rules',
      rule('by tier: ann', {
        scope: 'user',
        subjects: ['ann'],
        replaces: true,
        validUntil: '2031-01-01T00:00:00Z',
      }),
    );
    await send('/routes', { name: 'api', resource: '/api/*', origin: 'https://api.example.com' });
    await send('/lists', {
      list: 'deny',
      kind: 'ip',
      value: '10.0.0.0/8',
      expiresAt: '2031-01-01T00:00:00Z',
    });
    await send('/lists', { list: 'allow', kind: 'user', value: 'ann', reason: 'she tests' });
    const created = [
      await send('/keys', { name: 'of ann', userId: 'ann', expiresAt: '2031-01-01T00:00:00Z' }),
      await send('/keys', { tenantId: 'acme', tier: 'pro', disabled: true }),
    ];
    keys = created.map(({ id, key }) => ({ id, key: String(key) }));
    foundBefore = await Promise.all(keys.map(({ key }) => find(key)));
    backup = await everything();
    await sql.query(DELETE_ALL);
    expect((await everything()).users).toEqual([]);
  });

  test('restores into an empty database, in one change', async () => {
    const summary = await send('/import', backup);
    expect(summary).toMatchObject({
      tenants: { created: 1, updated: 0, deleted: 0, unchanged: 0 },
      users: { created: 1 },
      keys: { created: 2 },
      lists: { created: 2 },
      warnings: [],
    });
    expect(sorted(await everything())).toEqual(sorted(backup));
    const { rows } = await sql.query('select distinct change_id, actor from history');
    expect(rows).toEqual([{ change_id: expect.anything(), actor: TOKENS.admin.name }]);
  });

  test('has the settings; an import restores the settings that it names and leaves the others', async () => {
    const patch = (body: object) => admin.call('/settings', { method: 'PATCH', body });
    const read = async () => (await (await admin.call('/settings')).json()) as Entry;
    await patch({ enforcement: 'log', fileExtensions: 'ignored' });
    const document = (await (await admin.call('/export')).json()) as Entry;
    expect(document['settings']).toEqual({ enforcement: 'log', fileExtensions: 'ignored' });
    await patch({ enforcement: 'on', fileExtensions: 'part' });
    // A document exported before the change would silently undo it.
    expect((await admin.call('/import', { method: 'POST', body: document })).status).toBe(409);
    expect(await send('/import', { weir: 1, settings: { enforcement: 'log' } })).toMatchObject({
      settings: { changes: { enforcement: { from: 'on', to: 'log' } } },
    });
    expect(await read()).toMatchObject({ enforcement: 'log', fileExtensions: 'part' });
    expect(await send('/import?force=true', document)).toMatchObject({
      settings: { changes: { fileExtensions: { from: 'part', to: 'ignored' } } },
    });
    expect((await everything()).settings).toEqual(document['settings']);
    await send('/import', backup);
    expect(await read()).toMatchObject({ enforcement: 'on', fileExtensions: 'part' });
  });

  test('restores the keys, which work again and belong to the same callers', async () => {
    await send('/import', backup);
    const found = await Promise.all(keys.map(({ key }) => find(key)));
    expect(found).toEqual([
      {
        apiKeyId: keys[0]?.id,
        userId: 'ann',
        tenantId: 'acme',
        tier: 'pro',
        expiresAtMs: Date.UTC(2031, 0, 1),
      },
      // Disabled.
      undefined,
    ]);
    expect(found).toEqual(foundBefore);
  });

  test('holds hashes instead of keys', async () => {
    const text = JSON.stringify(backup);
    for (const { key } of keys) {
      expect(text).not.toContain(key);
      expect(text).toContain(await hashApiKey(key));
    }
  });

  test('that is imported twice changes nothing the second time', async () => {
    await send('/import', backup);
    for (const mode of ['merge', 'replace'])
      expect(await send(`/import?mode=${mode}`, backup)).toMatchObject({
        tenants: { created: 0, updated: 0, deleted: 0, unchanged: 1 },
        keys: { created: 0, updated: 0, deleted: 0, unchanged: 2 },
        lists: { created: 0, updated: 0, deleted: 0, unchanged: 2 },
        rules: { created: [], updated: [], deleted: [] },
      });
  });

  test('restores rows that have changed since; with mode=replace it deletes new rows', async () => {
    await send('/import', backup);
    await send('/users', { id: 'bob', tenantId: 'acme' });
    await sql.query(`update users set tier = null; update list_entries set reason = 'another'`);
    const preview = await send('/import?mode=replace&dryRun=true', backup);
    expect(preview).toMatchObject({ users: { created: 0, updated: 1, deleted: 1, unchanged: 0 } });
    expect(await everything()).not.toEqual(backup);
    expect(await send('/import', backup)).toMatchObject({
      users: { updated: 1, deleted: 0, unchanged: 1 },
    });
    expect(await send('/import?mode=replace', backup)).toMatchObject({ users: { deleted: 1 } });
    expect(sorted(await everything())).toEqual(sorted(backup));
  });
});

test('a token that may only read gets no backup', async () => {
  const { token } = TOKENS.read;
  expect((await admin.call('/export?everything=true', { token })).status).toBe(403);
  expect((await admin.call('/export', { token })).status).toBe(200);
});

test('a backup holds all rows, even if they are more than a page', async () => {
  await sql.query(`insert into users (id) select 'u' || n from generate_series(1, 5001) n`);
  expect((await everything()).users).toHaveLength(5001);
});

describe('an import refuses', () => {
  const hash = 'a'.repeat(64);
  const id = '2f1f6a3e-6f0e-4b61-9d4a-6c3f0e7b9a11';
  test.each<[string, object, number, unknown]>([
    ['a user twice', { users: [{ id: 'ann' }, { id: 'ann' }] }, 400, '#/users/1/id'],
    ['a key that is no hash', { keys: [{ id, hash: 'weir_abc', prefix: 'w' }] }, 400, '#/keys/0/hash'],
    ['a tier that is not there', { users: [{ id: 'ann', tier: 'gold' }] }, 409, '#/tier'],
    [
      'an address that is none',
      { lists: [{ list: 'deny', kind: 'ip', value: 'x' }] },
      400,
      '#/lists/0/value',
    ],
    [
      'one entry of a list in two spellings',
      {
        lists: ['::ffff:10.0.0.1', '10.0.0.1'].map((value) => ({ list: 'deny', kind: 'ip', value })),
      },
      400,
      '#/lists/1/value',
    ],
    ['a hash that another key has', { keys: [{ id, hash, prefix: 'w' }] }, 409, '#/hash'],
  ])('%s', async (_, parts, status, pointer) => {
    await sql.query(`insert into api_keys (hash, prefix) values ('${hash}', 'w')`);
    const response = await admin.call('/import', { method: 'POST', body: { weir: 1, ...parts } });
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ errors: [{ pointer }] });
    expect((await sql.query('select id from users')).rows).toEqual([]);
  });
});
