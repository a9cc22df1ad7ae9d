// Rules of every form through the admin route: which fields are refused, and that export and import keep them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readContent } from '../../src/rules/publishing/content.ts';
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
  { resource: '/days', scope: 'user', limit: 10, name: 'day', window: 'day', timeZone: 'Asia/Tokyo' },
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
  { ...ONE, name: 'claim', resource: '/claim', limitClaim: 'https://x.example/quota', limitMax: 500 },
  { resource: '/health', scope: 'all', name: 'allow all', action: 'allow', tenants: ['acme'] },
  { resource: '/*', scope: 'all', name: 'multiply all', action: 'multiply', times: 3, tenants: ['acme-*'] },
  {
    ...ONE,
    name: 'span',
    subjects: ['acme-*'],
    validFrom: '2030-01-01T00:00:00.000Z',
    validUntil: '2031-01-01T00:00:00.000Z',
  },
];

it.each(['reject', 'allow'])(
  'a window of the calendar is counted by fixed-window by default (%s)',
  async (action) => {
    const body = { name: `daily ${action}`, resource: `/daily/${action}`, action, limit: 9, window: 'day' };
    const created = await create(admin, 'rules', body);
    expect(created).toMatchObject({ algorithm: 'fixed-window' });
    const { id } = created as unknown as { readonly id: string };
    expect((await admin.call(`/rules/${id}`, { method: 'DELETE' })).status).toBe(204);
  },
);

it('a limit of several is counted by fixed-window by default if it has a window of the calendar', async () => {
  const limits = [
    { limit: 9, window: 'day' },
    { limit: 2, windowSeconds: 60 },
  ];
  const body = { name: 'several', resource: '/several', algorithm: 'gcra', limits };
  const { id } = (await create(admin, 'rules', body)) as unknown as { readonly id: string };
  const { content } = await readContent(admin.db.database, Date.now());
  expect(content.rules.find((rule) => rule.id === id)?.limits).toMatchObject([
    { algorithm: 'fixed-window', window: 'day' },
    { algorithm: 'gcra', windowSeconds: 60 },
  ]);
  expect((await admin.call(`/rules/${id}`, { method: 'DELETE' })).status).toBe(204);
});

it('hosts are read as those of routes are', async () => {
  const hosts = ['API.Example.com.', '*.b\u00fccher.example'];
  const body = { name: 'hosts', resource: '/hosts', limit: 9, windowSeconds: 60, hosts };
  const { id, ...created } = await create(admin, 'rules', body);
  expect(created).toMatchObject({ hosts: ['api.example.com', '*.xn--bcher-kva.example'] });
  expect((await admin.call(`/rules/${id}`, { method: 'DELETE' })).status).toBe(204);
});

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

describe('a limit as people say it', () => {
  const REST = { name: 'said', resource: '/said' };
  const put = (id: string, body: object) => admin.call(`/rules/${id}`, { method: 'PUT', body });
  const patch = (id: string, body: object) => admin.call(`/rules/${id}`, { method: 'PATCH', body });

  it('is stored, shown and exported in numbers, whether it is created, replaced, changed or imported', async () => {
    const made = await create(admin, 'rules', { ...REST, limit: '20 / minute' });
    expect(made).toMatchObject({ limit: 20, windowSeconds: 60 });
    expect(await read(await put(made.id, { ...REST, limit: '100 per 15 minutes' }))).toMatchObject({
      limit: 100,
      windowSeconds: 900,
    });
    const changed = await read(await patch(made.id, { limit: '5/2 days' }));
    expect(changed).toMatchObject({ limit: 5, windowSeconds: 172_800 });
    expect((await read(await patch(made.id, { limit: '5 / 48 hours' }))).revision).toBe(changed.revision);
    const several = [{ limit: '20 / second' }, { limit: '1000 / hour', algorithm: 'gcra', burst: 9 }];
    const document = { weir: 1, rules: [REST, { name: 'several', resource: '/several' }] };
    Object.assign(document.rules[0] ?? {}, { limit: '7 / day' });
    Object.assign(document.rules[1] ?? {}, { limits: several });
    expect((await admin.call('/import', { method: 'POST', body: document })).status).toBe(200);
    const exported = (await read(await admin.call('/export')))['rules'] as object[];
    const inNumbers = [
      { limit: 20, windowSeconds: 1 },
      { limit: 1_000, windowSeconds: 3_600, algorithm: 'gcra', burst: 9 },
    ];
    expect(exported).toContainEqual({ ...REST, id: made.id, limit: 7, windowSeconds: 86_400 });
    expect(exported).toContainEqual(expect.objectContaining({ name: 'several', limits: inNumbers }));
    const again = await create(admin, 'rules', { resource: '/several/more', limits: several });
    expect(again['limits']).toEqual(inNumbers);
  });

  const FORM = 'must be a whole number, or a text such as "20 / minute" or "100 / 15 minutes"';
  const UNITS = 'there are seconds, minutes, hours and days; for a week or month of the calendar, set window';
  it.each<[object, string, string]>([
    [{ limit: '20' }, '#/limit', FORM],
    [{ limit: 1.5 }, '#/limit', FORM],
    [{ limit: '1.5 / minute' }, '#/limit', FORM],
    [{ limit: ' 20 / minute' }, '#/limit', FORM],
    [{ limit: '20 per minute or so' }, '#/limit', FORM],
    [{ limit: '20 / Minute' }, '#/limit', FORM],
    [{ limit: '20 / fortnight' }, '#/limit', `names "fortnight": ${UNITS}`],
    [{ limit: '20 / month' }, '#/limit', `names "month": ${UNITS}`],
    [{ limit: '20 / constructor' }, '#/limit', `names "constructor": ${UNITS}`],
    [{ limit: '0 / minute' }, '#/limit', 'must allow 1 to 1000000000000'],
    [{ limit: '1000000000001 / minute' }, '#/limit', 'must allow 1 to 1000000000000'],
    [{ limit: '20 / 0 minutes' }, '#/limit', 'must name a time of 1 to 31622400 seconds'],
    [{ limit: '20 / 367 days' }, '#/limit', 'must name a time of 1 to 31622400 seconds'],
    [
      { limit: '20 / minute', windowSeconds: 60 },
      '#/windowSeconds',
      'cannot go with the limit "20 / minute"',
    ],
    [{ limit: '20 / minute', window: 'day' }, '#/window', 'cannot go with the limit "20 / minute"'],
    [{ limits: [{ limit: '20 / month' }] }, '#/limits/0/limit', `names "month": ${UNITS}`],
    [
      { limits: [{ limit: '2 / day', windowSeconds: 9 }] },
      '#/limits/0/windowSeconds',
      'cannot go with the limit "2 / day"',
    ],
    [
      { limits: [{ limit: '2 / minute' }, { limit: '3 / 60 seconds' }] },
      '#/limits/1/windowSeconds',
      'is that of another limit of this rule',
    ],
  ])('is refused if it is not exact or not alone: %j', async (said, pointer, detail) => {
    const body = { resource: '/refused', ...said };
    const errors = [{ pointer, detail }];
    expect(await readProblem(await admin.call('/rules', { method: 'POST', body }))).toMatchObject({ errors });
    const document = { weir: 1, rules: [{ name: 'refused', ...body }] };
    expect(await readProblem(await admin.call('/import', { method: 'POST', body: document }))).toMatchObject({
      errors: [{ pointer: pointer.replace('#', '#/rules/0'), detail }],
    });
  });
});

describe('a refusal names the field', () => {
  it.each<[object, string[]]>([
    [{ ...ONE, limitClaim: 'quota' }, ['#/limitMax']],
    [{ ...ONE, limitMax: 20 }, ['#/limitMax']],
    [{ ...ONE, limitClaim: 'quota', limitMax: 9 }, ['#/limitMax']],
    [{ ...ONE, limitClaim: 'quota', limitMax: 20, scope: 'ip' }, ['#/limitClaim']],
    [{ ...ONE, limitClaim: 'quota', limitMax: 20, scope: 'ip', by: ['country'] }, ['#/limitClaim']],
    [{ ...ONE, limitClaim: 'quota', limitMax: 20, algorithm: 'gcra', burst: 5 }, ['#/burst']],
    [{ ...ONE, scope: 'all' }, ['#/scope']],
    [{ ...ONE, scope: 'all', action: 'allow', subjects: ['ada'] }, ['#/subjects']],
    [{ ...ONE, scope: 'tenant', subjects: ['acme'], tenants: ['acme'] }, ['#/tenants']],
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
