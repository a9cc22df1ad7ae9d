// Every kind of bad request: its code, the field it points at, and that it writes nothing.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { history } from '../../src/rules/tables/tables.ts';
import { type Call, post, readRefusal } from './errors-harness.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, LOGINS, readProblem, type Shown } from './samples.ts';

let admin: Admin;
let rule: Shown;
let recorded: number;
beforeAll(async () => {
  admin = await startAdmin();
  rule = await create(admin, 'rules', LOGINS);
  await create(admin, 'tiers', { name: 'pro', isDefault: true });
  await create(admin, 'tenants', { id: 'acme', tier: 'pro' });
  recorded = await admin.db.database.$count(history);
});
afterAll(() => admin[Symbol.asyncDispose]());

const refusal = (call: Call) => readRefusal(admin, call);
const invalid = (...at: unknown[]) => ({ status: 400, code: 'invalid-body', at });
const containing = (text: string) => expect.stringContaining(text);

const SHORT_SEAT = { algorithm: 'concurrency', windowSeconds: 29 };

describe('the body of a request', () => {
  afterEach(async () => {
    expect(await admin.db.database.$count(history)).toBe(recorded);
  });

  it('is refused with the name of every missing field', async () => {
    expect(await refusal(post('/rules', {}))).toEqual(
      invalid(
        '#/resource is needed, or else resources',
        '#/limit is needed, or else a limitName',
        '#/windowSeconds is needed, or else a window',
      ),
    );
    expect(await refusal(post('/rules', { ...LOGINS, algorithm: null }))).toEqual(
      invalid('#/algorithm is needed'),
    );
    expect(await refusal(post('/tiers', {}))).toEqual(invalid('#/name is missing'));
  });

  it('is quoted only in part by its refusal, however large it is', async () => {
    const many = Object.fromEntries(Array.from({ length: 40_000 }, (_, i) => [`unknown${i}`, 1]));
    const long = { ...LOGINS, ['x'.repeat(900_000)]: 1, resource: `/{${'y'.repeat(50_000)}` };
    for (const body of [many, long]) {
      const answer = await admin.call('/rules', { method: 'POST', body });
      expect(answer.status).toBe(400);
      expect((await answer.text()).length).toBeLessThan(20_000);
    }
    expect((await refusal(post('/rules', { ...LOGINS, ...many }))).at?.at(-1)).toBe(
      '# has 39900 more errors',
    );
  });

  it('is refused with the names of all unknown and read-only fields', async () => {
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
      invalid('#/name cannot be changed: it is "pro". Leave it out, or give it as it is'),
    );
    expect(await refusal(['/tenants/acme', { method: 'PUT', body: { id: 'other' } }])).toEqual(
      invalid('#/id cannot be changed: it is "acme". Leave it out, or give it as it is'),
    );
  });

  it.each([
    ['a wrong type', { status: '5' }, '#/status', 'expected number, received string'],
    ['a fraction', { status: 400.5 }, '#/status', 'expected int'],
    ['null where there is none', { cost: null }, '#/cost', 'expected number, received null'],
    ['a value that is none of those', { scope: 'everybody' }, '#/scope', 'expected one of'],
    ['too small', { windowSeconds: 0 }, '#/windowSeconds', 'expected number to be >=1'],
    ['too large', { limit: 1e15 }, '#/limit', 'expected number to be <='],
    ['too long', { name: 'x'.repeat(129) }, '#/name', '<=128'],
    ['empty', { name: '' }, '#/name', '>=1'],
    ['a line break', { name: 'a\nb' }, '#/name', 'must have no control characters'],
    ['an escape sequence', { name: '\u001b[31mred' }, '#/name', 'must have no control characters'],
    ['a line separator', { name: 'a\u2028b' }, '#/name', 'must have no control characters'],
    ['within a list', { methods: ['GET', 'post'] }, '#/methods/1', 'upper-case'],
    ['not a list', { tiers: 'pro' }, '#/tiers', 'expected array'],
    ['a resource that never matches', { resource: 'login' }, '#/resource', ''],
    ['fields that contradict each other', { burst: 5 }, '#/burst', 'belongs to'],
    ['a seat that is too short', SHORT_SEAT, '#/windowSeconds', 'must be at least 30 for connections'],
    ['subjects of everybody', { scope: 'global', subjects: ['u1'] }, '#/subjects', 'everybody'],
  ])('is refused: %s', async (_, change, pointer, detail) => {
    const expected = { status: 400, code: 'invalid-body', at: [expect.stringContaining(`${pointer} `)] };
    for (const call of [
      post('/rules', { ...LOGINS, name: 'bad', ...change }),
      [`/rules/${rule.id}`, { method: 'PUT', body: { ...LOGINS, ...change } }],
      [`/rules/${rule.id}`, { method: 'PATCH', body: change }],
    ] as Call[]) {
      const answer = await refusal(call);
      expect(answer).toEqual(expected);
      expect(answer.at?.[0]).toContain(detail);
    }
  });

  it('of a tier is refused at each wrong limit, and at a wrong name or price', async () => {
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

  it('is refused if the name of a tier, a tenant or a key has control characters', async () => {
    for (const call of [
      post('/tiers', { name: 'x', displayName: 'a\u0007' }),
      post('/tenants', { id: 'x', name: 'a\tb' }),
      post('/keys', { name: 'a\r\nb' }),
    ])
      expect(await refusal(call)).toEqual(
        invalid(expect.stringMatching(/ must have no control characters$/)),
      );
  });

  it.each(['null', '[]', '"text"', '5', 'true'])('that is not an object is refused: %s', async (text) => {
    expect(await refusal(['/rules', { method: 'POST', text }])).toEqual(
      invalid(containing('# Invalid input')),
    );
  });

  it.each(['{', '{"a":}', "{'a': 1}"])('that is not JSON is refused: %s', async (text) => {
    expect(await refusal(['/rules', { method: 'POST', text }])).toMatchObject({
      status: 400,
      code: 'invalid-json',
    });
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'json'])(
    'of the type %s is refused',
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

  it('that is empty is fine where none is needed, even if it is declared as JSON', async () => {
    const declared = { 'Content-Type': 'application/json' };
    for (const headers of [{}, declared, { ...declared, 'Content-Length': '0' }]) {
      expect((await admin.call('/publish', { method: 'POST', headers })).status).toBe(200);
      const nobody = await refusal(['/history/999999/rollback', { method: 'POST', headers }]);
      expect(nobody).toMatchObject({ status: 404 });
    }
  });

  it('may have a charset, or be a merge patch', async () => {
    for (const type of ['application/json; charset=utf-8', 'application/merge-patch+json']) {
      const headers = { 'Content-Type': type };
      expect((await admin.call(`/rules/${rule.id}`, { method: 'PATCH', text: '{}', headers })).status).toBe(
        200,
      );
    }
  });

  it('that is too large is refused', async () => {
    const text = JSON.stringify({ ...LOGINS, message: 'x'.repeat(1024 * 1024) });
    expect(await refusal(['/rules', { method: 'POST', text }])).toMatchObject({
      status: 413,
      code: 'body-too-large',
    });
  });
});

describe('something that does not exist', () => {
  it.each([
    'not-a-uuid',
    '00000000-0000-4000-8000-000000000000',
    '1',
    "x' or '1'='1",
    '%ff',
    'a'.repeat(500),
  ])('is a 404: the id %s', async (id) => {
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
    ['DELETE', '/nothing'],
  ])('is a 404: the path of %s %s', async (method, path) => {
    expect(await refusal([path, { method }])).toMatchObject({ status: 404, code: 'not-found' });
  });

  it.each([
    ['DELETE', '/rules', 'GET, HEAD, POST'],
    ['PUT', '/lists', 'GET, HEAD, POST'],
    ['POST', '/rules/x', 'GET, HEAD, PUT, PATCH, DELETE'],
    ['OPTIONS', '/users/a%2Fb', 'GET, HEAD, PUT, PATCH, DELETE'],
    ['POST', '/history', 'GET, HEAD'],
    ['GET', '/history/5/rollback', 'POST'],
    ['HEAD', '/publish', 'POST'],
    ['PATCH', '/import', 'POST'],
    ['POST', '/openapi.json', 'GET, HEAD'],
  ])('is a 405: the method of %s %s', async (method, path, allow) => {
    const response = await admin.call(path, { method });
    expect([response.status, response.headers.get('Allow')]).toEqual([405, allow]);
    if (method !== 'HEAD') expect(await readProblem(response)).toMatchObject({ code: 'method-not-allowed' });
  });

  it('is a 401 if the token is missing or wrong, the same as for a path and a method that exist', async () => {
    for (const token of ['', 'wrong']) {
      const answerTo = async (path: string, method = 'GET') => {
        const answer = await admin.call(path, { method, token });
        return [answer.status, answer.headers.get('Allow'), await answer.text()];
      };
      const known = await answerTo('/rules');
      expect(known[0]).toBe(401);
      expect([await answerTo('/nothing'), await answerTo('/rules', 'DELETE')]).toEqual([known, known]);
    }
  });
});
