// Every change is recorded and can be undone, however it was made.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

interface Entry {
  readonly id: number;
  readonly changeId: number;
  readonly at: string;
  readonly actor: string;
  readonly entity: string;
  readonly entityId: string;
  readonly action: string;
  readonly before: Record<string, unknown> | null;
  readonly after: Record<string, unknown> | null;
}

const RULE = {
  name: 'login',
  resource: '/login',
  scope: 'ip',
  algorithm: 'fixed-window',
  limit: 10,
  windowSeconds: 60,
};

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
  await sql.query(
    'delete from rules; delete from api_keys; delete from users; delete from tenants; delete from tiers',
  );
  await sql.query('delete from history');
});

async function json<T>(path: string, options?: Parameters<Admin['call']>[1]): Promise<T> {
  const response = await admin.call(path, options);
  expect(response.ok, await response.clone().text()).toBe(true);
  return (await response.json()) as T;
}

const create = (body: object = RULE) => json<{ id: string }>('/rules', { method: 'POST', body });
const patch = (id: string, body: object, token?: string) =>
  json(`/rules/${id}`, { method: 'PATCH', body, token });
const remove = (id: string) => admin.call(`/rules/${id}`, { method: 'DELETE' });
const historyOf = async (query = '') =>
  (await json<{ items: Entry[]; nextCursor: string | null }>(`/history${query}`)).items;
const latest = async () => {
  const [entry] = await historyOf('?limit=1');
  if (!entry) throw new Error('the history is empty');
  return entry;
};
const rollBack = (changeId: number, options: Parameters<Admin['call']>[1] & { query?: string } = {}) =>
  admin.call(`/history/${changeId}/rollback${options.query ?? ''}`, { method: 'POST', ...options });
const rules = async () => (await json<{ items: Record<string, unknown>[] }>('/rules')).items;

describe('a revocation', () => {
  const revoke = (body: object) => admin.call('/callers/revoke', { method: 'POST', body });

  test('is published, stands in the history, and cannot be undone', async () => {
    const before = publications;
    const revoked = await json('/callers/revoke', {
      method: 'POST',
      body: { userId: 'lin', tenantId: 'acme' },
    });
    expect([revoked, publications]).toEqual([
      { revoked: ['user:lin', 'tenant:acme'], warnings: [] },
      before + 1,
    ]);
    const entries = await historyOf('?entity=callers');
    expect(entries).toMatchObject(
      ['tenant:acme', 'user:lin'].map((entityId) => ({ actor: 'alice', entityId, action: 'created' })),
    );
    const [{ changeId } = { changeId: 0 }] = entries;
    for (const query of ['', '?force=true']) {
      const answer = await rollBack(changeId, { query });
      expect([answer.status, await answer.json()]).toEqual([
        409,
        expect.objectContaining({ code: 'not-undone' }),
      ]);
    }
  });

  test.each([{}, { userId: '' }, { userId: 'a\u0000b' }, { userId: 'a'.repeat(257) }, { user: 'lin' }])(
    'names nobody with %j',
    async (body) => {
      expect((await revoke(body)).status).toBe(400);
      expect(await historyOf('?entity=callers')).toEqual([]);
    },
  );
});

describe('the history', () => {
  test('lists each change with its actor and the values before and after, newest first', async () => {
    const { id } = await create();
    await patch(id, { limit: 20 }, TOKENS.other.token);
    await remove(id);

    const entries = await historyOf();
    expect(entries.map(({ actor, entity, entityId, action }) => [actor, entity, entityId, action])).toEqual([
      ['alice', 'rules', id, 'deleted'],
      ['bob', 'rules', id, 'changed'],
      ['alice', 'rules', id, 'created'],
    ]);
    const [deletion, change, creation] = entries;
    expect(creation?.before).toBeNull();
    expect(creation?.after).toMatchObject({ ...RULE, id, maxDelayMs: null, onUnavailable: 'open' });
    expect(change?.before).toEqual(creation?.after);
    expect(change?.after).toMatchObject({ limit: 20, windowSeconds: 60 });
    expect(deletion?.before).toEqual(change?.after);
    expect(deletion?.after).toBeNull();
    expect(Object.keys(creation?.after ?? {})).not.toContain('ordinal');
  });

  test('shows a row as the admin route shows it', async () => {
    const { id } = await create();
    const shown = await json<Record<string, unknown>>(`/rules/${id}`);
    expect((await latest()).after).toEqual(shown);
  });

  test('names the database role when a row was changed by hand in SQL', async () => {
    await sql.query("insert into tiers (name) values ('free')");
    const { rows } = await sql.query('select session_user::text as role');
    expect(await latest()).toMatchObject({ actor: rows[0].role, entity: 'tiers', entityId: 'free' });
  });

  test('never shows the hash of a key', async () => {
    const { id } = await json<{ id: string }>('/keys', { method: 'POST', body: { name: 'ci' } });
    const entry = await latest();
    expect(entry).toMatchObject({ entity: 'keys', entityId: id, action: 'created' });
    const { rows } = await sql.query('select hash from api_keys');
    expect(JSON.stringify(await historyOf())).not.toContain(rows[0].hash);
  });

  test('can be filtered by entity, row, actor or change', async () => {
    const { id } = await create();
    await patch(id, { limit: 20 }, TOKENS.other.token);
    await json('/tiers', { method: 'POST', body: { name: 'free' } });
    const [tier, change, creation] = await historyOf();
    expect(await historyOf('?entity=tiers')).toEqual([tier]);
    expect(await historyOf(`?entity=rules&entityId=${id}`)).toEqual([change, creation]);
    expect(await historyOf('?actor=bob')).toEqual([change]);
    expect(await historyOf(`?changeId=${creation?.changeId}`)).toEqual([creation]);
    expect(await historyOf('?actor=nobody')).toEqual([]);
  });

  test('can be filtered by time', async () => {
    const { id } = await create();
    await patch(id, { limit: 20 });
    await sql.query(`update history set at = '2030-01-01T12:00:00.5Z' where after ->> 'limit' = '20'`);
    const [change, creation] = await historyOf();
    expect(await historyOf('?since=2030-01-01T12:00:00.500Z')).toEqual([change]);
    expect(await historyOf('?since=2030-01-01T12:00:00.501Z')).toEqual([]);
    expect(await historyOf('?until=2030-01-01T13:00:00.500%2B01:00')).toEqual([creation]);
    expect(await historyOf('?since=2029-01-01T00:00:00Z&until=2031-01-01T00:00:00Z')).toEqual([change]);
    expect((await admin.call('/history?since=yesterday')).status).toBe(400);
  });

  test('comes in pages that neither repeat nor skip an entry', async () => {
    const { id } = await create();
    for (const limit of [1, 2, 3, 4]) await patch(id, { limit });
    const all = await historyOf();
    const seen: Entry[] = [];
    let cursor: string | null = null;
    do {
      const query = `?limit=2${cursor === null ? '' : `&cursor=${cursor}`}`;
      const page: { items: Entry[]; nextCursor: string | null } = await json(`/history${query}`);
      seen.push(...page.items);
      cursor = page.nextCursor;
    } while (cursor !== null);
    expect(seen).toEqual(all);
    expect(seen).toHaveLength(5);
  });

  test.each(['?limit=0', '?limit=201', '?entity=nothing', '?cursor=nonsense', '?changeId=x', '?x=1'])(
    'refuses %s',
    async (query) => {
      expect((await admin.call(`/history${query}`)).status).toBe(400);
    },
  );
});

describe('a rollback', () => {
  test('of a creation deletes the rule', async () => {
    await create();
    const response = await rollBack((await latest()).changeId);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ rowCount: 1, warnings: [] });
    expect(await rules()).toEqual([]);
  });

  test('of a change restores the values before it, and publishes them', async () => {
    const { id } = await create();
    const [before] = await rules();
    await patch(id, { limit: 20, methods: ['POST'], message: 'slow down' });
    const published = publications;
    await rollBack((await latest()).changeId, { token: TOKENS.other.token });
    const [after] = await rules();
    expect({ ...after, revision: 0, updatedAt: '' }).toEqual({ ...before, revision: 0, updatedAt: '' });
    expect(after?.revision).not.toBe(before?.revision);
    expect(publications).toBe(published + 1);
    expect(await latest()).toMatchObject({ actor: 'bob', action: 'changed' });
  });

  test('of a deletion brings the rule back, its place among the counters included', async () => {
    const { id } = await create();
    const before = await sql.query('select id, ordinal, created_at from rules');
    await remove(id);
    await rollBack((await latest()).changeId);
    expect((await sql.query('select id, ordinal, created_at from rules')).rows).toEqual(before.rows);
  });

  test('can be rolled back, again and again', async () => {
    const { id } = await create();
    await patch(id, { limit: 20 });
    let { changeId } = await latest();
    for (const limit of [10, 20, 10, 20]) {
      const response = await rollBack(changeId);
      changeId = ((await response.json()) as { changeId: number }).changeId;
      expect((await rules())[0]?.limit).toBe(limit);
      expect((await latest()).changeId).toBe(changeId);
    }
  });

  test('undoes everything that one transaction did by hand', async () => {
    await create();
    await sql.query('begin');
    await sql.query("insert into tiers (name) values ('free')");
    await sql.query("insert into users (id, tier) values ('u1', 'free')");
    await sql.query('update rules set "limit" = 99');
    await sql.query('commit');
    const { changeId } = await latest();
    const response = await rollBack(changeId);
    expect(await response.json()).toMatchObject({ rowCount: 3 });
    expect((await rules())[0]?.limit).toBe(10);
    expect((await sql.query('select * from tiers')).rows).toEqual([]);
    expect((await sql.query('select * from users')).rows).toEqual([]);
  });

  test('undoes a transaction that changed one row twice', async () => {
    await create();
    await sql.query(`begin; update rules set "limit" = 98; update rules set "limit" = 99; commit`);
    expect((await rollBack((await latest()).changeId)).status).toBe(200);
    expect((await rules())[0]?.limit).toBe(10);
  });

  test.each([{ query: '?force=true' }, { body: { force: true } }])(
    'is refused if the row has changed since, unless it is forced by %j',
    async (forced) => {
      const { id } = await create();
      await patch(id, { limit: 20 });
      const { changeId } = await latest();
      await patch(id, { limit: 30 });
      const refused = await rollBack(changeId);
      expect(refused.status).toBe(409);
      expect(await refused.json()).toMatchObject({ code: 'changed-since' });
      expect((await rules())[0]?.limit).toBe(30);
      expect((await rollBack(changeId, forced)).status).toBe(200);
      expect((await rules())[0]?.limit).toBe(10);
    },
  );

  test('undoes nothing if it cannot undo all', async () => {
    await json('/tiers', { method: 'POST', body: { name: 'free' } });
    const { changeId } = await latest();
    await json('/users', { method: 'POST', body: { id: 'u1', tier: 'free' } });
    const response = await rollBack(changeId);
    expect(response.status).toBe(409);
    expect(await response.json()).toMatchObject({ code: 'still-in-use' });
    expect((await sql.query('select name from tiers')).rows).toEqual([{ name: 'free' }]);
  });

  test('of a change that does not exist is a 404', async () => {
    expect((await rollBack(999_999_999)).status).toBe(404);
    expect((await rollBack(0)).status).toBe(400);
  });

  test('is refused to a token that may only read', async () => {
    await create();
    const { changeId } = await latest();
    expect((await rollBack(changeId, { token: TOKENS.read.token })).status).toBe(403);
    expect(await rules()).toHaveLength(1);
  });
});
