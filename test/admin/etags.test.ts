// Several editors at once: nobody overwrites another person's change without having seen it.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Admin, startAdmin, TOKENS } from './harness.ts';
import { create, LOGINS, read, readProblem, type Shown } from './samples.ts';

let admin: Admin;
let rule: Shown;
let path: string;
beforeAll(async () => {
  admin = await startAdmin();
});
afterAll(() => admin[Symbol.asyncDispose]());

beforeEach(async () => {
  const { name: _name, ...unnamed } = LOGINS;
  // Its own resource, because Weir warns of rules that tie.
  rule = await create(admin, 'rules', { ...unnamed, resource: `/${crypto.randomUUID()}` });
  path = `/rules/${rule.id}`;
});

const ifMatch = (tag: string) => ({ headers: { 'If-Match': tag } });
const get = async () => read(await admin.call(path));
const CHANGES = [
  ['PUT', { ...LOGINS, name: undefined, limit: 77 }],
  ['PATCH', { limit: 77 }],
  ['DELETE', undefined],
] as const;

describe('with several editors, the admin route', () => {
  it.each(CHANGES)('refuses a %s based on an old revision, and changes nothing', async (method, body) => {
    const seen = (await admin.call(path)).headers.get('ETag') ?? '';
    await admin.call(path, { method: 'PATCH', body: { cost: 2 }, token: TOKENS.other.token });
    const present = await get();

    const late = await admin.call(path, { method, body, ...ifMatch(seen) });
    expect([late.status, (await readProblem(late)).code]).toEqual([412, 'precondition-failed']);
    expect(late.headers.get('ETag')).toBe(`"${present.revision}"`);
    expect(await get()).toEqual(present);
  });

  it.each(CHANGES)('takes a %s based on the present revision', async (method, body) => {
    const response = await admin.call(path, { method, body, ...ifMatch(`"${rule.revision}"`) });
    expect(response.ok).toBe(true);
    const [status, limit] = method === 'DELETE' ? [404, undefined] : [200, 77];
    const after = await admin.call(path);
    expect([after.status, (await read(after))['limit']]).toEqual([status, limit]);
  });

  it.each(CHANGES)(
    'takes a %s without If-Match, even if the row was changed before',
    async (method, body) => {
      await admin.call(path, { method: 'PATCH', body: { cost: 2 } });
      expect((await admin.call(path, { method, body })).ok).toBe(true);
    },
  );

  it('takes exactly one of many changes based on the same revision', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        admin.call(path, { method: 'PATCH', body: { limit: 100 + i }, ...ifMatch(`"${rule.revision}"`) }),
      ),
    );
    const winners = answers.filter(({ status }) => status === 200);
    expect(winners).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 412)).toHaveLength(7);
    expect(await get()).toEqual(await read(winners[0] as Response));
  });
});

describe('patches of different fields at once', () => {
  it('all take effect', async () => {
    const changes = [
      { limit: 50 },
      { cost: 3 },
      { priority: 1 },
      { message: 'wait' },
      { status: 503 },
      { enabled: false },
    ];
    const answers = await Promise.all(changes.map((body) => admin.call(path, { method: 'PATCH', body })));
    expect(answers.map(({ status }) => status)).toEqual(changes.map(() => 200));
    expect(await get()).toMatchObject(Object.assign({}, ...changes));
  });

  it('never add up to a rule that would be refused', async () => {
    // The limit times the window may be too large.
    await admin.call(path, { method: 'PATCH', body: { algorithm: 'gcra' } });
    const answers = await Promise.all([
      admin.call(path, { method: 'PATCH', body: { limit: 50_000_000_000 } }),
      admin.call(path, { method: 'PATCH', body: { windowSeconds: 3600 } }),
    ]);
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 400]);
    const { limit, windowSeconds } = await get();
    expect([
      [50_000_000_000, 60],
      [5, 3600],
    ]).toContainEqual([limit, windowSeconds]);
  });
});

describe('If-Match', () => {
  const isTaken = async (tag: string) =>
    (await admin.call(path, { method: 'PATCH', body: { limit: 8 }, ...ifMatch(tag) })).status;

  it('takes a list, any (*), and tags that a proxy has made weak', async () => {
    const mine = () => get().then(({ revision }) => `"${revision}"`);
    expect(await isTaken(`"1", ${await mine()}`)).toBe(200);
    expect(await isTaken(`W/${await mine()}`)).toBe(200);
    expect(await isTaken('*')).toBe(200);
  });

  it('matches no row if it has a tag that Weir did not make', async () => {
    for (const tag of ['"abc"', '""', '"-1"', '"1e3"', '"99999999999999999999"', '"1", "2"'])
      expect([tag, await isTaken(tag)]).toEqual([tag, 412]);
  });

  it('is refused if it cannot be read', async () => {
    for (const tag of ['12', '"1" "2"', '"1",', 'W/', '"']) {
      const response = await admin.call(path, { method: 'DELETE', ...ifMatch(tag) });
      expect(await readProblem(response)).toMatchObject({
        status: 400,
        code: 'invalid-request',
        errors: [{ pointer: 'If-Match' }],
      });
    }
    expect(await get()).toEqual(rule);
  });

  it('for a row that no longer exists is a 404', async () => {
    await admin.call(path, { method: 'DELETE' });
    for (const tag of ['*', `"${rule.revision}"`]) expect([tag, await isTaken(tag)]).toEqual([tag, 404]);
  });
});

describe('If-None-Match', () => {
  const ask = (tag: string) => admin.call(path, { headers: { 'If-None-Match': tag } });

  it('answers 304 without a body while the row is the same', async () => {
    for (const tag of [`"${rule.revision}"`, `W/"${rule.revision}"`, `"1", "${rule.revision}"`, '*']) {
      const response = await ask(tag);
      expect([tag, response.status, await response.text()]).toEqual([tag, 304, '']);
      expect(response.headers.get('ETag')).toBe(`"${rule.revision}"`);
    }
  });

  it('answers the row once it has changed', async () => {
    await admin.call(path, { method: 'PATCH', body: { limit: 6 } });
    const response = await ask(`"${rule.revision}"`);
    expect([response.status, (await read(response))['limit']]).toEqual([200, 6]);
  });
});
