// What all collections have in common: create, get, list, replace, patch, delete; the history; and what is in force.
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Publication } from '../../src/rules/publishing/publish.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';
import { create, LOGINS, read, readProblem, SAMPLES, type Shown } from './samples.ts';

const QUIET: Publication = {
  version: 'v1',
  changed: true,
  ruleCount: 1,
  rejected: [],
  warnings: [],
  regions: [],
};

let admin: Admin;
let publish: () => Promise<Publication>;
let publications = 0;
beforeAll(async () => {
  admin = await startAdmin({
    publish: () => {
      publications += 1;
      return publish();
    },
  });
});
afterAll(() => admin[Symbol.asyncDispose]());

const historyOf = async (entity: string) => {
  const { rows } = await admin.db.database.execute(
    sql`select actor, before is null as created, after is null as deleted from weir.history where entity = ${entity} order by id`,
  );
  return rows;
};

const detailOf = (value: unknown) =>
  `cannot be changed: it is ${JSON.stringify(value)}. Leave it out, or give it as it is`;

it.each([
  ['/users', { id: 'a\ud800' }, 'id'],
  ['/tenants', { id: '\udc00' }, 'id'],
  ['/tenants', { id: 'whole', name: '\ud800' }, 'name'],
  ['/keys', { userId: '\ud800' }, 'userId'],
  ['/lists', { list: 'deny', kind: 'user', value: '\ud800' }, 'value'],
  ['/rules', { ...LOGINS, name: 'half', subjects: ['\ud800'] }, '#/subjects/0'],
])('%s refuses %j: Postgres would store another text', async (path, body, field) => {
  const answer = await admin.call(path, { method: 'POST', body });
  const problem = await answer.text();
  expect([answer.status, problem]).toEqual([400, expect.stringContaining('half of a surrogate pair')]);
  expect(problem).toContain(field);
});

describe.each(SAMPLES)(
  '$collection',
  ({ collection, id: idField, body, shown, patch, replacement, replaced }) => {
    let item: Shown;
    let path: string;
    beforeAll(() => {
      publish = async () => QUIET;
    });

    it('creates a row, names its location, and publishes', async () => {
      const before = publications;
      const response = await admin.call(`/${collection}`, { method: 'POST', body });
      item = await read(response);
      path = `/${collection}/${encodeURIComponent(String(item[idField]))}`;
      expect(response.status).toBe(201);
      expect(item).toMatchObject(shown);
      expect(item).not.toHaveProperty('warnings');
      expect(response.headers.get('Location')).toBe(`/_weir/admin${path}`);
      expect(response.headers.get('ETag')).toBe(`"${item.revision}"`);
      expect(response.headers.get('X-Weir-Rules-Version')).toBe('v1');
      expect(response.headers.get('Cache-Control')).toBe('no-store');
      expect(publications).toBe(before + 1);
    });

    it('shows the row, by itself and in the list', async () => {
      const { key: _once, ...kept } = item;
      const response = await admin.call(path);
      expect(await read(response)).toEqual(kept);
      expect(response.headers.get('ETag')).toBe(`"${item.revision}"`);
      const list = (await (await admin.call(`/${collection}`)).json()) as {
        items: Shown[];
        nextCursor: null;
      };
      expect(list.items).toContainEqual(kept);
      expect(list.nextCursor).toBeNull();
    });

    it('changes only the fields that a patch gives', async () => {
      const { key: _once, revision, updatedAt, ...rest } = item;
      const response = await admin.call(path, { method: 'PATCH', body: patch, token: TOKENS.other.token });
      const patched = await read(response);
      expect(response.status).toBe(200);
      expect(patched).toEqual({
        ...rest,
        ...patch,
        revision: expect.any(Number),
        updatedAt: expect.any(String),
      });
      expect(patched.revision).toBeGreaterThan(revision);
      expect(response.headers.get('ETag')).toBe(`"${patched.revision}"`);
      expect(await read(await admin.call(path))).toEqual(patched);
      item = patched;
    });

    it('keeps the revision, and the history, when a patch changes nothing', async () => {
      const recorded = await historyOf(tableOf(collection));
      for (const nothing of [patch, {}]) {
        const response = await admin.call(path, { method: 'PATCH', body: nothing });
        expect(await read(response)).toEqual(item);
      }
      expect(await historyOf(tableOf(collection))).toEqual(recorded);
    });

    it('accepts its own answer as a replacement or a patch, and changes nothing', async () => {
      const recorded = await historyOf(tableOf(collection));
      for (const method of ['PUT', 'PATCH']) {
        const response = await admin.call(path, { method, body: await read(await admin.call(path)) });
        expect([method, response.status, await read(response)]).toEqual([method, 200, item]);
      }
      expect(await historyOf(tableOf(collection))).toEqual(recorded);
    });

    it('refuses a read-only field of any depth', async () => {
      const depth = 100_000;
      for (const deep of [
        '['.repeat(depth) + ']'.repeat(depth),
        `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`,
      ]) {
        const response = await admin.call(path, {
          method: 'PATCH',
          text: `{"revision":${deep}}`,
          headers: { 'Content-Type': 'application/json' },
        });
        expect([response.status, (await readProblem(response)).errors]).toEqual([
          400,
          [{ pointer: '#/revision', detail: detailOf(item.revision) }],
        ]);
      }
    });

    it('refuses to change read-only fields, and shows their values', async () => {
      const shownOnly = [
        idField,
        'revision',
        'createdAt',
        'updatedAt',
        ...(collection === 'keys' ? ['prefix'] : []),
      ];
      for (const method of ['PUT', 'PATCH'])
        for (const field of shownOnly) {
          const other = field === 'revision' ? item.revision - 1 : 'other';
          const response = await admin.call(path, { method, body: { ...item, [field]: other } });
          const { status, code, errors } = await readProblem(response);
          expect([status, code, errors]).toEqual([
            400,
            'invalid-body',
            [{ pointer: `#/${field}`, detail: detailOf(item[field]) }],
          ]);
        }
      expect(await read(await admin.call(path))).toEqual(item);
    });

    it('sets each field that a replacement leaves out to its default', async () => {
      const response = await admin.call(path, { method: 'PUT', body: replacement });
      const answer = await read(response);
      expect(response.status).toBe(200);
      expect(answer).toMatchObject({ ...replaced, createdAt: item.createdAt });
      expect(answer.revision).toBeGreaterThan(item.revision);
      expect(await read(await admin.call(path))).toEqual(answer);
    });

    it('deletes the row, once', async () => {
      const response = await admin.call(path, { method: 'DELETE' });
      expect([response.status, await response.text()]).toEqual([204, '']);
      expect(response.headers.get('X-Weir-Rules-Version')).toBe('v1');
      for (const method of ['GET', 'DELETE', 'PUT', 'PATCH']) {
        const again = await admin.call(path, {
          method,
          ...(method.startsWith('P') && { body: replacement }),
        });
        expect([method, again.status, (await readProblem(again)).code]).toEqual([method, 404, 'not-found']);
      }
      // Later samples refer to earlier ones.
      await create(admin, collection, body);
    });

    it('has recorded who made each change', async () => {
      const recorded = await historyOf(tableOf(collection));
      expect(recorded.slice(-5)).toEqual([
        { actor: 'alice', created: true, deleted: false },
        { actor: 'bob', created: false, deleted: false },
        { actor: 'alice', created: false, deleted: false },
        { actor: 'alice', created: false, deleted: true },
        { actor: 'alice', created: true, deleted: false },
      ]);
    });
  },
);

describe('a change that is saved', () => {
  it('carries the warnings that concern its rule, and no others', async () => {
    const { id } = await create(admin, 'rules', { ...LOGINS, name: 'tied' });
    publish = async () => ({
      ...QUIET,
      warnings: [
        { ruleIds: ['another', id], message: 'tied and another are equally good' },
        { ruleIds: ['another'], message: 'none of your business' },
      ],
      rejected: [
        { id, name: 'tied', problems: ['limit: too large', 'burst: too small'] },
        { id: 'another', name: 'another', problems: ['broken'] },
      ],
      regions: [
        { name: 'eu', announced: true },
        { name: 'us', announced: false },
        { name: 'ap', announced: false, problem: 'ERR Error running script: @user_script:2: x' },
      ],
    });
    const { warnings } = await read(
      await admin.call(`/rules/${id}`, { method: 'PATCH', body: { limit: 6 } }),
    );
    expect(warnings).toEqual([
      'not in force: tied: limit: too large; burst: too small',
      'tied and another are equally good',
      'region us could not be told; it follows within a minute',
      "region ap was not told: its Redis cannot run Weir's script (ERR Error running script: @user_script:2: x)",
    ]);
  });

  it('stays saved if it cannot be published, and the answer has a warning', async () => {
    publish = () => Promise.reject(new Error('KV: secret words'));
    const response = await admin.call('/rules', { method: 'POST', body: { ...LOGINS, name: 'unpublished' } });
    const rule = await read(response);
    const warnings = [
      'saved, but not yet published: The rules could not be handed to the edge; the cron run will, within a minute by default',
    ];
    expect([response.status, rule.warnings]).toEqual([201, warnings]);
    expect(response.headers.has('X-Weir-Rules-Version')).toBe(false);
    const { warnings: _warnings, ...kept } = rule;
    expect(await read(await admin.call(`/rules/${rule.id}`))).toEqual(kept);

    const deletion = await admin.call(`/rules/${rule.id}`, { method: 'DELETE' });
    expect([deletion.status, await deletion.json()]).toEqual([200, { warnings }]);
    expect((await admin.call(`/rules/${rule.id}`)).status).toBe(404);
  });
});

it('a token that may only read may read, and may change nothing', async () => {
  publish = async () => QUIET;
  const { id } = await create(admin, 'rules', { ...LOGINS, name: 'kept' });
  const token = TOKENS.read.token;
  expect((await admin.call(`/rules/${id}`, { token })).status).toBe(200);
  for (const method of ['PUT', 'PATCH', 'DELETE']) {
    const response = await admin.call(`/rules/${id}`, {
      token,
      method,
      ...(method !== 'DELETE' && { body: LOGINS }),
    });
    expect([method, response.status]).toEqual([method, 403]);
  }
  expect((await admin.call('/rules', { token, method: 'POST', body: LOGINS })).status).toBe(403);
});

const TABLES: Readonly<Record<string, string>> = { keys: 'api_keys', lists: 'list_entries' };
const tableOf = (collection: string) => TABLES[collection] ?? collection;
