// Parts of a limit by region: which shares a rule may have, and that nobody can set its former placement.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Admin, startAdmin } from './harness.ts';
import { create, LOGINS, type ProblemBody, read, readProblem } from './samples.ts';

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
beforeEach(() => sql.query('delete from rules; delete from history'));

const put = (id: string, body: object) =>
  admin.call(`/rules/${id}`, { method: 'PUT', body: { ...LOGINS, ...body } });
const patch = (id: string, body: object) => admin.call(`/rules/${id}`, { method: 'PATCH', body });
const errorsOf = ({ status, code, errors }: ProblemBody) => ({ status, code, errors });

describe('a rule', () => {
  test.each<object>([
    { shares: { eu: 2, us: 0.5 } },
    { shares: { eu: 1, us: 0 } },
    { shares: { eu: 1 }, spill: false },
    { spill: false },
    { central: true },
    { central: true, spill: false },
    { shares: { eu: 1 }, spill: false, countDenied: true },
    { shares: { eu: 1 }, spill: false, algorithm: 'concurrency' },
    { algorithm: 'concurrency' },
  ])('may have %j', async (said) => {
    const { id, ...shown } = await create(admin, 'rules', { ...LOGINS, ...said });
    expect(shown).toMatchObject(said);
    expect(shown.warnings).toBeUndefined();
    expect(await read(await admin.call(`/rules/${id}`))).toMatchObject(said);
    expect(await read(await put(id, {}))).toMatchObject({ shares: null, spill: true, central: false });
    expect(await read(await patch(id, said))).toMatchObject(said);
  });

  const LENT = (reason: string) =>
    `cannot be split over regions that help each other out: ${reason}. Set spill to false, and each region keeps to its own share; ` +
    'or leave shares out, and each subject is counted in one region';
  const eu = { eu: 1 };

  test.each<[object, string, string]>([
    [
      { shares: eu, central: true },
      '#/shares',
      'cannot go with central: each subject is counted in one region, which has the whole limit',
    ],
    [{ shares: {} }, '#/shares', 'must name at least one region with a share above 0'],
    [{ shares: { eu: 0, us: 0 } }, '#/shares', 'must name at least one region with a share above 0'],
    [{ shares: { eu: -1, us: 1 } }, '#/shares/eu', 'Too small: expected number to be >=0'],
    [{ shares: { eu: '1' } }, '#/shares/eu', 'Invalid input: expected number, received string'],
    [{ shares: 5 }, '#/shares', 'Invalid input: expected record, received number'],
    [{ shares: { us: 1, mars: 1 } }, '#/shares/mars', 'is not a region; there are us, eu, ap'],
    [{ shares: { us: 1, EU: 0 } }, '#/shares/EU', 'is not a region; there are us, eu, ap'],
    [{ central: 1 }, '#/central', 'Invalid input: expected boolean, received number'],
    [
      { shares: eu, algorithm: 'concurrency' },
      '#/shares',
      LENT('connections are held where they were opened (concurrency)'),
    ],
    [
      { shares: eu, algorithm: 'leaky-bucket', action: 'throttle' },
      '#/shares',
      LENT('a queue cannot be split (throttle)'),
    ],
    [
      { shares: eu, countDenied: true },
      '#/shares',
      LENT('a denial is not one before all regions have said no (countDenied)'),
    ],
    [
      { shares: eu, blockSeconds: 5 },
      '#/shares',
      LENT('a denial is not one before all regions have said no (blockSeconds)'),
    ],
  ])('may not have %j', async (said, pointer, detail) => {
    const { id, revision } = await create(admin, 'rules', LOGINS);
    const created = await admin.call('/rules', { method: 'POST', body: { ...LOGINS, name: 'bad', ...said } });
    for (const response of [created, await put(id, said), await patch(id, said)])
      expect(errorsOf(await readProblem(response))).toEqual({
        status: 400,
        code: 'invalid-body',
        errors: [{ pointer, detail }],
      });
    expect((await read(await admin.call(`/rules/${id}`))).revision).toBe(revision);
  });

  test('is refused with the names of all regions that do not exist', async () => {
    const body = { ...LOGINS, shares: { mars: 1, us: 1, 'a/b~c': 1 } };
    const { errors } = await readProblem(await admin.call('/rules', { method: 'POST', body }));
    expect(errors?.map(({ pointer }) => pointer)).toEqual(['#/shares/mars', '#/shares/a~1b~0c']);
  });

  test('with a share for a region that no longer exists can be changed in other fields', async () => {
    const { id } = await create(admin, 'rules', LOGINS);
    await sql.query(`update rules set shares = '{"us": 1, "mars": 1}'`);
    expect(await read(await patch(id, { limit: 9 }))).toMatchObject({ limit: 9, shares: { us: 1, mars: 1 } });
    const shown = await read(await admin.call(`/rules/${id}`));
    for (const method of ['PUT', 'PATCH'])
      expect((await admin.call(`/rules/${id}`, { method, body: { ...shown, limit: 9 } })).status).toBe(200);
    expect((await patch(id, { shares: { mars: 1 } })).status).toBe(400);
    expect(await read(await patch(id, { shares: { us: 1 } }))).toMatchObject({ shares: { us: 1 } });
  });
});

test('rules with shares, and central rules, are explained like any other', async () => {
  await create(admin, 'rules', { ...LOGINS, name: 'shared', resource: '/x', shares: { eu: 1 } });
  await create(admin, 'rules', { ...LOGINS, name: 'central', resource: '/*', central: true });
  await sql.query(`update rules set shares = '{"us": 1}' where name = 'shared'`);
  const response = await admin.call('/explain', { method: 'POST', body: { path: '/x', ip: '192.0.2.1' } });
  const { applies } = (await response.json()) as { applies: { name: string; limit: number }[] };
  expect(applies.map(({ name, limit }) => [name, limit])).toEqual([
    ['shared', 5],
    ['central', 5],
  ]);
});
