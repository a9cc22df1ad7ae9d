// Rules of every form through the admin route: which fields are refused, and that export and import keep them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { rules } from '../../src/rules/tables/tables.ts';
import { type Admin, startAdmin } from './harness.ts';
import { create, read, readProblem } from './samples.ts';

let admin: Admin;
beforeAll(async () => {
  admin = await startAdmin();
  await admin.db.database.delete(rules);
});
afterAll(() => admin[Symbol.asyncDispose]());

const LIMIT = { algorithm: 'fixed-window', limit: 10, windowSeconds: 60 };
const ONE = { resource: '/x', scope: 'user', ...LIMIT };
const SEVERAL = { resource: '/x', scope: 'user', algorithm: 'fixed-window' };

const CALENDAR = { ...SEVERAL, limit: 10 };

const FORMS = [
  {
    ...SEVERAL,
    name: 'limits',
    limits: [
      { limit: 5, windowSeconds: 1 },
      { limitName: 'calls', windowSeconds: 9 },
    ],
  },
  { ...LIMIT, scope: 'user', name: 'resources', resources: ['/a/*', '/b/:id'], policy: 'both' },
  { ...ONE, name: 'costs', resource: '/c/*', costs: [{ resource: '/c/d', methods: ['GET'], cost: 3 }] },
  { resource: '/e', scope: 'user', name: 'allow', action: 'allow' },
  { ...CALENDAR, name: 'day', resource: '/days', window: 'day', timeZone: 'Asia/Tokyo' },
  {
    ...SEVERAL,
    name: 'months',
    resource: '/months',
    limits: [
      { limit: 5, window: 'month', timeZone: 'Europe/Berlin', anchorDay: 31 },
      { limit: 2, window: 'week' },
      { limit: 1, windowSeconds: 60, algorithm: 'gcra' },
    ],
  },
  { ...ONE, name: 'replaces', resource: '/f', replaces: true, percent: 40 },
  { resource: '/*', scope: 'user', name: 'multiply', action: 'multiply', times: 2.5, subjects: ['acme-*'] },
  {
    ...ONE,
    name: 'span',
    subjects: ['acme-*'],
    validFrom: '2030-01-01T00:00:00.000Z',
    validUntil: '2031-01-01T00:00:00.000Z',
  },
];

describe('a form of a rule', () => {
  it.each(FORMS)('is shown as it was written: $name', async (body) => {
    expect(await create(admin, 'rules', body)).toMatchObject(body);
  });

  it('is kept by export and import', async () => {
    const document = await read(await admin.call('/export'));
    expect(document['rules']).toEqual(
      expect.arrayContaining(FORMS.map((one) => expect.objectContaining(one))),
    );
    const again = await admin.call('/import?mode=replace&dryRun=true', { method: 'POST', body: document });
    expect(await read(again)).toMatchObject({ rules: { created: [], updated: [], deleted: [] } });
    const afresh = { weir: 1, rules: FORMS.map((one) => ({ ...one, name: `again ${one.name}` })) };
    expect((await admin.call('/import', { method: 'POST', body: afresh })).status).toBe(200);
    const taken = (await read(await admin.call('/export')))['rules'] as { name: string }[];
    for (const one of afresh.rules) expect(taken.find(({ name }) => name === one.name)).toMatchObject(one);
  });
});

describe('a refusal names the field', () => {
  it.each<[object, string[]]>([
    [{ ...ONE, limits: [{ limit: 1, windowSeconds: 1 }] }, ['#/limit', '#/windowSeconds']],
    [{ ...SEVERAL, limits: [{ windowSeconds: 1 }] }, ['#/limits/0/limit']],
    [
      {
        ...SEVERAL,
        limits: [
          { limit: 1, windowSeconds: 9 },
          { limit: 2, windowSeconds: 9 },
        ],
      },
      ['#/limits/1/windowSeconds'],
    ],
    [
      { ...SEVERAL, limits: [{ limit: 1, windowSeconds: 60, algorithm: 'concurrency' }] },
      ['#/limits/0/algorithm'],
    ],
    [{ ...SEVERAL, limits: [{ limit: 1, windowSeconds: 60, burst: 3 }] }, ['#/limits/0/burst']],
    [{ ...SEVERAL, limits: [{ limit: 1, windowSeconds: 60, when: 3 }] }, ['#/limits/0/when']],
    [{ ...ONE, costs: [{ resource: 'c', cost: 1 }] }, ['#/costs/0/resource']],
    [{ ...ONE, costs: [{ resource: '/c', cost: 11 }] }, ['#/costs/0/cost']],
    [
      { ...ONE, algorithm: 'leaky-bucket', action: 'throttle', costs: [{ resource: '/c', cost: 1 }] },
      ['#/costs'],
    ],
    [{ ...ONE, window: 'day' }, ['#/window']],
    [{ ...CALENDAR, algorithm: 'gcra', window: 'day' }, ['#/window']],
    [{ ...CALENDAR, window: 'year' }, ['#/window']],
    [{ ...CALENDAR, window: 'week', anchorDay: 2 }, ['#/anchorDay']],
    [{ ...ONE, timeZone: 'UTC' }, ['#/timeZone']],
    ...['Mars/Olympus', '+01:00', 'UTC+3'].map((timeZone): [object, string[]] => [
      { ...CALENDAR, window: 'day', timeZone },
      ['#/timeZone'],
    ]),
    [
      {
        ...SEVERAL,
        limits: [
          { limit: 1, window: 'day' },
          { limit: 2, windowSeconds: 86_400 },
        ],
      },
      ['#/limits/1/windowSeconds'],
    ],
    [{ ...ONE, resources: ['/y'] }, ['#/resource']],
    [{ ...LIMIT, scope: 'user', resources: ['/y/:a', '/z', '/Y/{b}/'] }, ['#/resources/2']],
    [{ ...LIMIT, scope: 'user' }, ['#/resource']],
    [{ ...ONE, policy: 'Not a slug' }, ['#/policy']],
    [{ ...ONE, times: 2 }, ['#/times']],
    [{ ...ONE, action: 'multiply' }, ['#/times']],
    [{ ...ONE, action: 'multiply', times: 0 }, ['#/times']],
    [
      { ...ONE, action: 'multiply', times: 2, methods: ['GET'], by: ['ip'], replaces: true },
      ['#/methods', '#/by', '#/replaces'],
    ],
    [{ ...ONE, percent: 101 }, ['#/percent']],
    [{ ...ONE, scope: 'global', percent: 50 }, ['#/percent']],
    [{ ...ONE, scope: 'ip', subjects: ['10.*'] }, ['#/subjects']],
    [{ ...ONE, validFrom: 'tomorrow' }, ['#/validFrom']],
    [{ ...ONE, validFrom: '2030-01-02T00:00:00Z', validUntil: '2030-01-01T00:00:00Z' }, ['#/validUntil']],
    [{ resource: '/x', scope: 'user', action: 'reject' }, ['#/limit', '#/windowSeconds']],
  ])('%j', async (body, pointers) => {
    const problem = await readProblem(await admin.call('/rules', { method: 'POST', body }));
    expect(problem).toMatchObject({ status: 400, code: 'invalid-body' });
    expect(problem.errors?.map(({ pointer }) => pointer)).toEqual(pointers);
  });
});
