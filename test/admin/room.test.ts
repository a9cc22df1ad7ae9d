// A change that would make all rules together too large for the edge is refused when it is saved, not when it is
// published.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MAX_SAVED_BYTES } from '../../src/rules/publishing/snapshot-size.ts';
import { type Admin, startAdmin } from './harness.ts';
import { rule as documentRule } from './import-export-harness.ts';
import { create, LOGINS, read, readProblem } from './samples.ts';

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
beforeEach(async () => {
  await sql.query('delete from rules; delete from tiers; delete from list_entries');
  await admin.call('/publish', { method: 'POST' });
});

/** Pretends that the last publication left this much room. */
const leaveRoom = (bytes: number) =>
  sql.query('update last_publication set bytes = $1', [MAX_SAVED_BYTES - bytes]);
const published = async () => Number((await sql.query('select bytes from last_publication')).rows[0].bytes);
const subjects = (count: number) => Array.from({ length: count }, (_, i) => `subject-${i}`);

const REFUSED = { status: 409, code: 'rules-too-large' };

describe('when the rules have no room left', () => {
  it.each([
    ['rules', { ...LOGINS, subjects: subjects(100) }],
    ['tiers', { name: 'large', limits: Object.fromEntries(subjects(100).map((name) => [name, 1])) }],
    ['lists', { list: 'deny', kind: 'user', value: 'x'.repeat(256) }],
  ])('a new row is refused: %s', async (collection, body) => {
    await leaveRoom(200);
    const problem = await readProblem(await admin.call(`/${collection}`, { method: 'POST', body }));
    expect(problem).toMatchObject({
      ...REFUSED,
      title: 'All rules, tiers and lists together would be too large',
      detail: expect.stringMatching(/^By [1-9]\d* bytes: at most 7 MiB fit /),
    });
    const { items } = (await (await admin.call(`/${collection}`)).json()) as { items: unknown[] };
    expect(items).toEqual([]);
  });

  it('a rule cannot grow or be switched on', async () => {
    const { id } = await create(admin, 'rules', { ...LOGINS, subjects: ['a'] });
    const off = await create(admin, 'rules', {
      ...LOGINS,
      name: 'off',
      enabled: false,
      subjects: subjects(100),
    });
    await leaveRoom(200);
    const change = (which: string, method: string, body: object) =>
      admin.call(`/rules/${which}`, { method, body });
    for (const response of [
      await change(id, 'PATCH', { subjects: subjects(100) }),
      await change(id, 'PUT', { ...LOGINS, subjects: subjects(100) }),
      await change(off.id, 'PATCH', { enabled: true }),
    ])
      expect(await readProblem(response)).toMatchObject(REFUSED);
    expect(await read(await admin.call(`/rules/${id}`))).toMatchObject({ subjects: ['a'] });
  });

  it('an import is refused, and so is its dry run', async () => {
    await leaveRoom(2_000);
    const body = { weir: 1, rules: subjects(50).map((name) => documentRule(name)) };
    for (const query of ['?dryRun=true', '', '?mode=replace'])
      expect(await readProblem(await admin.call(`/import${query}`, { method: 'POST', body }))).toMatchObject(
        REFUSED,
      );
  });
});

describe('when the rules are already as large as allowed, or larger', () => {
  it('a change that does not make them larger is saved, and so is a rule that is switched off', async () => {
    const { id } = await create(admin, 'rules', { ...LOGINS, subjects: subjects(50) });
    await leaveRoom(-1_000_000);
    for (const body of [{ priority: 100 }, { subjects: subjects(49) }, { enabled: false }])
      expect((await admin.call(`/rules/${id}`, { method: 'PATCH', body })).status).toBe(200);
    await leaveRoom(-1_000_000);
    await create(admin, 'rules', { ...LOGINS, name: 'off', enabled: false, subjects: subjects(100) });
    await leaveRoom(-1_000_000);
    expect((await admin.call(`/rules/${id}`, { method: 'DELETE' })).status).toBe(204);
  });

  it('an import that makes them smaller is taken', async () => {
    const rules = subjects(50).map((name) => documentRule(name));
    await admin.call('/import', { method: 'POST', body: { weir: 1, rules } });
    await leaveRoom(0);
    const fewer = { weir: 1, rules: rules.slice(0, 49) };
    const answer = await admin.call('/import?mode=replace', { method: 'POST', body: fewer });
    expect(answer.status).toBe(200);
  });
});

it('a change that just fits is saved', async () => {
  const before = await published();
  const { id } = await create(admin, 'rules', { ...LOGINS, subjects: subjects(100) });
  const grownBy = (await published()) - before;
  await admin.call(`/rules/${id}`, { method: 'DELETE' });
  await leaveRoom(grownBy + 60);
  await create(admin, 'rules', { ...LOGINS, subjects: subjects(100) });
  await admin.call('/publish', { method: 'POST' });
});
