// Rules: what the filters find, and that Weir validates the whole rule that results from a change.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rules } from '../../src/rules/tables/tables.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, LOGINS, read, readProblem, type Shown } from './samples.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
  await admin.db.database.delete(rules);
});
afterAll(() => admin[Symbol.asyncDispose]());

const find = async (query: string) => {
  const { items } = (await (await admin.call(`/rules?${query}`)).json()) as { items: Shown[] };
  return items.map(({ name }) => name);
};

describe('filters', () => {
  beforeAll(async () => {
    await create(admin, 'rules', { ...LOGINS, name: 'Logins 100%' });
    await create(admin, 'rules', {
      ...LOGINS,
      name: 'uploads_all',
      resource: '/uploads',
      scope: 'user',
      enabled: false,
    });
    await create(admin, 'rules', {
      ...LOGINS,
      name: 'bulk',
      resource: '/bulk/*',
      algorithm: 'gcra',
      tiers: ['free', 'pro'],
    });
    const { resource: _, ...others } = LOGINS;
    await create(admin, 'rules', {
      ...others,
      name: 'several',
      resources: ['/first', '/second/*'],
      scope: 'tenant',
    });
  });

  it.each([
    ['', ['Logins 100%', 'uploads_all', 'bulk', 'several']],
    ['scope=ip', ['Logins 100%', 'bulk']],
    ['algorithm=gcra', ['bulk']],
    ['enabled=false', ['uploads_all']],
    ['enabled=true', ['Logins 100%', 'bulk', 'several']],
    ['resource=/uploads', ['uploads_all']],
    ['resource=/upload', []],
    ['resource=/second/*', ['several']],
    ['tier=pro', ['bulk']],
    ['tier=pr', []],
    ['q=LOG', ['Logins 100%']],
    ['q=%25', ['Logins 100%']],
    ['q=_', ['uploads_all']],
    ['q=%5C', []],
    ['scope=ip&algorithm=fixed-window&enabled=true&q=in', ['Logins 100%']],
    ["q=' or true --", []],
  ])('show the right rules: “%s”', async (query, names) => {
    expect(await find(query)).toEqual(names);
  });

  it.each(['scope=everybody', 'algorithm=none', 'enabled=yes', 'scop=ip', 'scope=ip&scope=user'])(
    'refuse %s rather than show everything',
    async (query) => {
      const problem = await readProblem(await admin.call(`/rules?${query}`));
      expect(problem).toMatchObject({
        status: 400,
        code: 'invalid-request',
        errors: [{ pointer: query.split('=')[0] }],
      });
    },
  );
});

describe('a rule', () => {
  it('needs only three fields, and gets a name', async () => {
    const three = { resource: '/three', limit: 5, windowSeconds: 60 };
    const rule = await create(admin, 'rules', three);
    expect(rule).toEqual({
      ...three,
      scope: 'ip',
      algorithm: 'sliding-window-counter',
      id: expect.any(String),
      name: expect.stringMatching(/^rule-[0-9a-f]{8}$/),
      policy: null,
      resources: [],
      methods: [],
      tenants: [],
      limitClaim: null,
      limitMax: null,
      per: [],
      by: [],
      boundTimes: 10,
      hosts: [],
      routes: [],
      tiers: [],
      subjects: [],
      percent: 100,
      limitName: null,
      burst: null,
      buckets: null,
      limits: [],
      cost: 1,
      costs: [],
      costFromOrigin: false,
      refundOnError: false,
      action: 'reject',
      times: null,
      window: null,
      timeZone: null,
      anchorDay: null,
      replaces: false,
      maxDelayMs: null,
      priority: 100,
      enabled: true,
      countDenied: false,
      blockSeconds: null,
      status: 429,
      message: null,
      onUnavailable: 'open',
      alertAt: [],
      shares: null,
      spill: true,
      central: false,
      lease: true,
      validFrom: null,
      validUntil: null,
      revision: expect.any(Number),
      createdAt: expect.any(String),
      updatedAt: expect.any(String),
    });
  });

  it('is switched off and on', async () => {
    const { id } = await create(admin, 'rules', { ...LOGINS, name: 'switched' });
    for (const enabled of [false, true]) {
      const response = await admin.call(`/rules/${id}`, { method: 'PATCH', body: { enabled } });
      expect((await read(response))['enabled']).toBe(enabled);
    }
  });

  it('is checked as a whole when a part of it changes', async () => {
    const { id, revision } = await create(admin, 'rules', {
      ...LOGINS,
      name: 'bursty',
      algorithm: 'gcra',
      burst: 10,
    });
    const patch = (body: object) => admin.call(`/rules/${id}`, { method: 'PATCH', body });

    const refused = await patch({ algorithm: 'fixed-window' });
    expect(await readProblem(refused)).toMatchObject({
      status: 400,
      code: 'invalid-body',
      errors: [{ pointer: '#/burst', detail: 'belongs to token-bucket, leaky-bucket, gcra' }],
    });
    expect((await read(await admin.call(`/rules/${id}`))).revision).toBe(revision);
    expect(await read(await patch({ algorithm: 'fixed-window', burst: null }))).toMatchObject({
      algorithm: 'fixed-window',
      burst: null,
    });
    expect((await readProblem(await patch({ limit: null }))).errors).toEqual([
      { pointer: '#/limit', detail: 'is needed, or else a limitName' },
    ]);
    expect((await patch({ limit: null, limitName: 'calls' })).status).toBe(200);
  });

  it('keeps numbers beyond 32 bits', async () => {
    const limit = 999_999_999_999;
    const rule = await create(admin, 'rules', { ...LOGINS, name: 'large', limit, windowSeconds: 1 });
    expect(rule['limit']).toBe(limit);
  });
});

describe('a name', () => {
  it('goes to exactly one of many rules created with it at once', async () => {
    const answers = await Promise.all(
      Array.from({ length: 8 }, () =>
        admin.call('/rules', { method: 'POST', body: { ...LOGINS, name: 'wanted' } }),
      ),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409, 409, 409]);
    expect(await find('q=wanted')).toEqual(['wanted']);
  });
});
