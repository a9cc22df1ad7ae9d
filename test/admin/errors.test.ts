// Every kind of bad request: its code, the field it points at, and that nothing of it is written.
import { sql } from 'drizzle-orm';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { postgresProblem } from '../../src/admin/postgres-problems.ts';
import { history, rules, users } from '../../src/rules/schema.ts';
import { type Admin, type AdminCall, startAdmin } from './harness.ts';
import { create, LOGINS, readProblem, type Shown } from './samples.ts';

let admin: Admin;
let rule: Shown;
let recorded: number;
const logged: unknown[] = [];
beforeAll(async () => {
  admin = await startAdmin({ log: { error: (...entry) => logged.push(entry) } });
  rule = await create(admin, 'rules', LOGINS);
  await create(admin, 'tiers', { name: 'pro', isDefault: true });
  await create(admin, 'tenants', { id: 'acme', tier: 'pro' });
  recorded = await admin.db.database.$count(history);
});
afterAll(() => admin[Symbol.asyncDispose]());

const post = (path: string, body: unknown): [string, AdminCall] => [path, { method: 'POST', body }];
const refusal = async ([path, options]: [string, AdminCall?]) => {
  const response = await admin.call(path, options);
  const { status, code, errors } = await readProblem(response);
  expect(response.status).toBe(status);
  return { status, code, at: errors?.map(({ pointer, detail }) => `${pointer} ${detail}`) };
};
const invalid = (...at: unknown[]) => ({ status: 400, code: 'invalid-body', at });
const containing = (text: string) => expect.stringContaining(text);

describe('a bad body', () => {
  afterEach(async () => {
    expect(await admin.db.database.$count(history)).toBe(recorded);
  });

  it('names every field that is missing', async () => {
    expect(await refusal(post('/rules', {}))).toEqual(
      invalid(
        '#/resource is missing',
        '#/scope is missing',
        '#/algorithm is missing',
        '#/windowSeconds is missing',
      ),
    );
    expect(await refusal(['/rules', { method: 'POST' }])).toMatchObject({
      status: 400,
      code: 'invalid-body',
    });
    expect(await refusal(post('/tiers', {}))).toEqual(invalid('#/name is missing'));
  });

  it('names every field that is not one, and those that are never written', async () => {
    const extra = {
      ...LOGINS,
      limt: 3,
      id: rule.id,
      revision: 1,
      createdAt: 'x',
      updatedAt: 'x',
      'a/b~c': 1,
      ordinal: 1,
    };
    expect(await refusal(post('/rules', extra))).toEqual(
      invalid(
        '#/limt is not a field',
        '#/id is shown, never written',
        '#/revision is shown, never written',
        '#/createdAt is shown, never written',
        '#/updatedAt is shown, never written',
        '#/a~1b~0c is not a field',
        '#/ordinal is not a field',
      ),
    );
    expect(await refusal(['/tiers/pro', { method: 'PATCH', body: { name: 'other' } }])).toEqual(
      invalid('#/name is not a field'),
    );
    expect(await refusal(['/tenants/acme', { method: 'PUT', body: { id: 'other' } }])).toEqual(
      invalid('#/id is shown, never written'),
    );
  });

  it.each([
    ['a wrong type', { limit: '5' }, '#/limit', 'expected number, received string'],
    ['a fraction', { limit: 1.5 }, '#/limit', 'expected int'],
    ['null where there is none', { cost: null }, '#/cost', 'expected number, received null'],
    ['a value that is none of those', { scope: 'everybody' }, '#/scope', 'expected one of'],
    ['too small', { windowSeconds: 0 }, '#/windowSeconds', 'expected number to be >=1'],
    ['too large', { limit: 1e15 }, '#/limit', 'expected number to be <='],
    ['too long', { name: 'x'.repeat(129) }, '#/name', '<=128'],
    ['empty', { name: '' }, '#/name', '>=1'],
    ['within a list', { methods: ['GET', 'post'] }, '#/methods/1', 'upper-case'],
    ['not a list', { tiers: 'pro' }, '#/tiers', 'expected array'],
    ['a resource that never matches', { resource: 'login' }, '#/resource', ''],
    ['fields that contradict each other', { burst: 5 }, '#/burst', 'belongs to'],
    ['subjects of everybody', { scope: 'global', subjects: ['u1'] }, '#/subjects', 'everybody'],
  ])('%s', async (_, change, pointer, detail) => {
    const expected = { status: 400, code: 'invalid-body', at: [expect.stringContaining(`${pointer} `)] };
    for (const call of [
      post('/rules', { ...LOGINS, name: 'bad', ...change }),
      [`/rules/${rule.id}`, { method: 'PUT', body: { ...LOGINS, ...change } }],
      [`/rules/${rule.id}`, { method: 'PATCH', body: change }],
    ] as [string, AdminCall][]) {
      const answer = await refusal(call);
      expect(answer).toEqual(expected);
      expect(answer.at?.[0]).toContain(detail);
    }
  });

  it('in a tier: limits that are no limits', async () => {
    const limits = { calls: 0, exports: 'many', 'a/b': 1.5, fine: null };
    expect(await refusal(post('/tiers', { name: 'x', limits }))).toEqual(
      invalid(containing('#/limits/calls '), containing('#/limits/exports '), containing('#/limits/a~1b ')),
    );
    expect(await refusal(post('/tiers', { name: 'Not Plain' }))).toEqual(
      invalid(containing('#/name must be lower-case')),
    );
    expect(await refusal(post('/tiers', { name: 'x', priceCents: -1 }))).toEqual(
      invalid(containing('#/priceCents ')),
    );
  });

  it.each(['null', '[]', '"text"', '5', 'true'])('that is no object: %s', async (text) => {
    expect(await refusal(['/rules', { method: 'POST', text }])).toEqual(
      invalid(containing('# Invalid input')),
    );
  });

  it.each(['{', '', '{"a":}', "{'a': 1}"])('that is not JSON: %s', async (text) => {
    expect(await refusal(['/rules', { method: 'POST', text }])).toMatchObject({
      status: 400,
      code: 'invalid-json',
    });
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'json'])(
    'of the type %s',
    async (type) => {
      const headers = { 'Content-Type': type };
      for (const [method, path] of [
        ['POST', '/rules'],
        ['PUT', `/rules/${rule.id}`],
        ['PATCH', `/rules/${rule.id}`],
      ])
        expect(await refusal([`${path}`, { method: `${method}`, text: '{}', headers }])).toMatchObject({
          status: 415,
          code: 'not-json',
        });
    },
  );

  it('is fine with a charset, or as a merge patch', async () => {
    for (const type of ['application/json; charset=utf-8', 'application/merge-patch+json']) {
      const headers = { 'Content-Type': type };
      expect((await admin.call(`/rules/${rule.id}`, { method: 'PATCH', text: '{}', headers })).status).toBe(
        200,
      );
    }
  });

  it('that is too large', async () => {
    const text = JSON.stringify({ ...LOGINS, message: 'x'.repeat(1024 * 1024) });
    expect(await refusal(['/rules', { method: 'POST', text }])).toMatchObject({
      status: 413,
      code: 'body-too-large',
    });
  });
});

describe('what Postgres refuses', () => {
  it('a name that is taken', async () => {
    const taken = { status: 409, code: 'already-exists', at: ['#/name is already taken'] };
    const { id } = await create(admin, 'rules', { ...LOGINS, name: 'second' });
    expect(await refusal(post('/rules', LOGINS))).toEqual(taken);
    expect(await refusal([`/rules/${id}`, { method: 'PATCH', body: { name: 'logins' } }])).toEqual(taken);
    expect(await refusal([`/rules/${id}`, { method: 'PUT', body: LOGINS }])).toEqual(taken);
    expect(await refusal(post('/tiers', { name: 'pro' }))).toEqual(taken);
    expect(await refusal(post('/tenants', { id: 'acme' }))).toMatchObject({ at: ['#/id is already taken'] });
  });

  it('a second default tier', async () => {
    expect(await refusal(post('/tiers', { name: 'basic', isDefault: true }))).toEqual({
      status: 409,
      code: 'already-exists',
      at: ['#/isDefault another tier is the default one'],
    });
  });

  it('a reference to what is not there', async () => {
    const unknown = (field: string) => ({
      status: 409,
      code: 'unknown-reference',
      at: [`#/${field} names something that is not there`],
    });
    expect(await refusal(post('/users', { id: 'u', tier: 'gold' }))).toEqual(unknown('tier'));
    expect(await refusal(post('/users', { id: 'u', tenantId: 'nobody' }))).toEqual(unknown('tenantId'));
    expect(await refusal(post('/keys', { tenantId: 'nobody' }))).toEqual(unknown('tenantId'));
    expect(await refusal(['/tenants/acme', { method: 'PATCH', body: { tier: 'gold' } }])).toEqual(
      unknown('tier'),
    );
  });

  it('to delete what is still in use', async () => {
    const response = await admin.call('/tiers/pro', { method: 'DELETE' });
    expect(await readProblem(response)).toMatchObject({
      status: 409,
      code: 'still-in-use',
      detail: 'By tenants.',
    });
  });

  it('text with a NUL', async () => {
    const nul = { status: 400, code: 'refused-by-database' };
    expect(await refusal(post('/rules', { ...LOGINS, name: 'a\0b' }))).toMatchObject(nul);
    expect(await refusal(post('/tiers', { name: 'nul', limits: { 'a\0b': 1 } }))).toMatchObject(nul);
    expect(await refusal(['/rules?q=%00'])).toMatchObject(nul);
    expect((await admin.call('/users/%00')).status).toBe(404);
  });
});

describe('what is not there', () => {
  it.each([
    'not-a-uuid',
    '00000000-0000-4000-8000-000000000000',
    '1',
    "x' or '1'='1",
    '%ff',
    'a'.repeat(500),
  ])('an id: %s', async (id) => {
    const path = `/rules/${id === '%ff' ? id : encodeURIComponent(id)}`;
    const gone = { status: 404, code: 'not-found' };
    expect(await refusal([path])).toMatchObject(gone);
    expect(await refusal([path, { method: 'DELETE' }])).toMatchObject(gone);
    expect(await refusal([path, { method: 'PATCH', body: { limit: 1 } }])).toMatchObject(gone);
    expect(await refusal([path, { method: 'PUT', body: LOGINS }])).toMatchObject(gone);
  });

  it.each([
    ['GET', '/nothing'],
    ['GET', '/'],
    ['GET', ''],
    ['GET', '/rules/'],
    ['GET', '/rules/a/b'],
    ['DELETE', '/rules'],
    ['POST', '/rules/x'],
  ])('a path or a method: %s %s', async (method, path) => {
    expect(await refusal([path, { method }])).toMatchObject({ status: 404, code: 'not-found' });
  });
});

describe('an error of Postgres', () => {
  const errorOf = (query: PromiseLike<unknown>) =>
    Promise.resolve(query).then(
      () => undefined,
      (error: unknown) => error,
    );

  it('that a check gives names the check', async () => {
    const { database } = admin.db;
    const problem = postgresProblem(await errorOf(database.insert(rules).values({ ...LOGINS, limit: -1 })));
    expect(problem).toMatchObject({
      status: 400,
      code: 'refused-by-database',
      detail: 'It breaks rules_limit_is_positive.',
    });
    const missing = await errorOf(database.execute(sql`insert into rules (resource) values ('/x')`));
    expect(postgresProblem(missing)).toMatchObject({
      status: 400,
      code: 'refused-by-database',
      detail: 'It breaks scope.',
    });
  });

  it('that a function of Weir raises keeps its meaning', async () => {
    const { database } = admin.db;
    const changed = await errorOf(database.execute(sql`select weir_expect_unchanged(array['rules'], 0)`));
    expect(postgresProblem(changed)).toMatchObject({ status: 409, code: 'changed-since' });
    const unknown = await errorOf(database.execute(sql`select weir_rollback(-5, false)`));
    expect(postgresProblem(unknown)).toMatchObject({ status: 404, code: 'not-found' });
  });

  it('that is none is a bug', () => {
    expect(postgresProblem(new TypeError('x is not a function'))).toMatchObject({
      status: 500,
      code: 'internal-error',
    });
    expect(postgresProblem('a text')).toMatchObject({ status: 500 });
  });
});

describe('no Postgres', () => {
  it('without its tables says what to do', async () => {
    await admin.db.database.execute(sql`alter table ${users} rename to users_elsewhere`);
    const problem = await readProblem(await admin.call('/users'));
    expect(problem).toMatchObject({
      status: 503,
      code: 'tables-missing',
      detail: 'Run `npm run db:migrate`.',
    });
  });

  it('at all says so, without any secret', async () => {
    await admin.db.stopPostgres();
    for (const call of [
      ['/rules'],
      [`/rules/${rule.id}`],
      post('/tiers', { name: 'late' }),
      [`/rules/${rule.id}`, { method: 'PATCH', body: { limit: 1 } }],
    ] as [string, AdminCall?][]) {
      const response = await admin.call(...call);
      const text = await response.text();
      expect([response.status, JSON.parse(text).code]).toEqual([503, 'database-unavailable']);
      expect(text).not.toMatch(/select|insert|127\.0\.0\.1|postgres:\/\//i);
    }
    expect(logged).not.toHaveLength(0);
  });
});
