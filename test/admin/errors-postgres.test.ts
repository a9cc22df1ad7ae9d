// How the admin route reports what Postgres refuses, and a Postgres that does not answer.
import { sql } from 'drizzle-orm';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { postgresProblem } from '../../src/admin/problems.ts';
import { rules, users } from '../../src/rules/tables/tables.ts';
import { type Call, post, readRefusal } from './errors-harness.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, LOGINS, readProblem, type Shown } from './samples.ts';

let admin: Admin;
let rule: Shown;
const logged: unknown[] = [];
beforeAll(async () => {
  admin = await startAdmin({ log: { error: (...entry) => logged.push(entry) } });
  rule = await create(admin, 'rules', LOGINS);
  await create(admin, 'tiers', { name: 'pro', isDefault: true });
  await create(admin, 'tenants', { id: 'acme', tier: 'pro' });
});
afterAll(() => admin[Symbol.asyncDispose]());

const refusal = (call: Call) => readRefusal(admin, call);

describe('the admin route refuses', () => {
  it('a name that is taken', async () => {
    const taken = { status: 409, code: 'already-exists', at: ['#/name is already taken'] };
    const { id } = await create(admin, 'rules', { ...LOGINS, name: 'second' });
    expect(await refusal(post('/rules', LOGINS))).toEqual(taken);
    expect(await refusal([`/rules/${id}`, { method: 'PATCH', body: { name: 'logins' } }])).toEqual(taken);
    expect(await refusal([`/rules/${id}`, { method: 'PUT', body: LOGINS }])).toEqual(taken);
    expect(await refusal(post('/tiers', { name: 'pro' }))).toEqual(taken);
    expect(await refusal(post('/tenants', { id: 'acme' }))).toMatchObject({ at: ['#/id is already taken'] });
  });

  it('a reference to a row that does not exist', async () => {
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

  it('the deletion of a row that is still in use', async () => {
    const response = await admin.call('/tiers/pro', { method: 'DELETE' });
    expect(await readProblem(response)).toMatchObject({
      status: 409,
      code: 'still-in-use',
      detail: 'By tenants.',
    });
  });

  it('text with a NUL', async () => {
    const nul = { status: 400, code: 'refused-by-database' };
    expect(await refusal(post('/rules', { ...LOGINS, message: 'a\0b' }))).toMatchObject(nul);
    expect(await refusal(post('/tiers', { name: 'nul', limits: { 'a\0b': 1 } }))).toMatchObject(nul);
    expect(await refusal(['/rules?q=%00'])).toMatchObject(nul);
    expect((await admin.call('/users/%00')).status).toBe(404);
  });
});

describe('an error of Postgres', () => {
  const errorOf = (query: PromiseLike<unknown>) =>
    Promise.resolve(query).then(
      () => undefined,
      (error: unknown) => error,
    );

  it('about a broken constraint names the constraint', async () => {
    const { database } = admin.db;
    const problem = postgresProblem(await errorOf(database.insert(rules).values({ ...LOGINS, limit: -1 })));
    expect(problem).toMatchObject({
      status: 400,
      code: 'refused-by-database',
      detail: 'It breaks rules_limit_is_positive.',
    });
    const missing = await errorOf(database.execute(sql`insert into weir.tiers default values`));
    expect(postgresProblem(missing)).toMatchObject({
      status: 400,
      code: 'refused-by-database',
      detail: 'It breaks name.',
    });
  });

  it('raised by a function of Weir keeps its meaning', async () => {
    const { database } = admin.db;
    const changed = await errorOf(
      database.execute(sql`select weir.weir_expect_unchanged(array['rules'], 0)`),
    );
    expect(postgresProblem(changed)).toMatchObject({ status: 409, code: 'changed-since' });
    const unknown = await errorOf(database.execute(sql`select weir.weir_rollback(-5, false)`));
    expect(postgresProblem(unknown)).toMatchObject({ status: 404, code: 'not-found' });
  });

  it('is told apart from any other error, which is a bug', () => {
    expect(postgresProblem(new TypeError('x is not a function'))).toMatchObject({
      status: 500,
      code: 'internal-error',
    });
    expect(postgresProblem('a text')).toMatchObject({ status: 500 });
  });
});

describe('the admin route', () => {
  it('says what to do if its tables are missing', async () => {
    await admin.db.database.execute(sql`alter table ${users} rename to users_elsewhere`);
    const problem = await readProblem(await admin.call('/users'));
    expect(problem).toMatchObject({
      status: 503,
      code: 'tables-missing',
      detail: 'Run `npm run db:migrate`.',
    });
  });

  it('says that Postgres is down, and shows no secret', async () => {
    await admin.db.stopPostgres();
    for (const call of [
      ['/rules'],
      [`/rules/${rule.id}`],
      post('/tiers', { name: 'late' }),
      [`/rules/${rule.id}`, { method: 'PATCH', body: { limit: 1 } }],
    ] as Call[]) {
      const response = await admin.call(...call);
      const text = await response.text();
      expect([response.status, JSON.parse(text).code]).toEqual([503, 'database-unavailable']);
      expect(text).not.toMatch(/select|insert|127\.0\.0\.1|postgres:\/\//i);
    }
    expect(logged).not.toHaveLength(0);
  });
});
