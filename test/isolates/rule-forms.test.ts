// Rules of every form, made through the admin route and seen by a client of the built Worker.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { policiesIn } from '../http/headers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const DAY = 86_400;
const RULES = [
  {
    resource: '/several/*',
    scope: 'ip',
    algorithm: 'fixed-window',
    limits: [
      { limit: 3, windowSeconds: DAY },
      { limit: 9, windowSeconds: 2 * DAY, algorithm: 'token-bucket' },
    ],
  },
  {
    policy: 'budget',
    name: 'internal: the budget that sales promised',
    resource: '/budget/*',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 100,
    windowSeconds: DAY,
    costs: [
      { resource: '/budget/search', cost: 5 },
      { resource: '/budget/ai', methods: ['POST'], cost: 60 },
    ],
  },
  { resource: '/several/health', scope: 'ip', action: 'allow' },
  {
    resource: '/several/bulk',
    scope: 'ip',
    algorithm: 'fixed-window',
    limit: 50,
    windowSeconds: DAY,
    replaces: true,
  },
];

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  for (const rule of RULES) await weir.admin('/rules', { method: 'POST', body: rule });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const policies = ({ headers }: Response) =>
  headers.has('RateLimit-Policy') ? policiesIn(headers, 'RateLimit-Policy').map(({ name }) => name) : [];

it('rules of every form are in force soon', async () => {
  await expect
    .poll(async () => policies(await weir.call('/several/bulk', { ip: freshIp() })))
    .toEqual(['several-bulk-ip']);
});

it('a rule with two limits counts both, and denies by the first that is used up', async () => {
  const ip = freshIp();
  for (const left of [2, 1, 0]) {
    const answer = await weir.call('/several/x', { ip });
    expect(answer.status).toBe(200);
    expect(policiesIn(answer.headers, 'RateLimit')).toMatchObject([
      { name: 'several-all-ip-1d', parameters: { r: left } },
      { name: 'several-all-ip-2d', parameters: { r: left + 6 } },
    ]);
  }
  const denied = await weir.call('/several/x', { ip });
  expect(denied.status).toBe(429);
  expect(await denied.json()).toMatchObject({
    policy: 'several-all-ip-1d',
    'violated-policies': ['several-all-ip-1d'],
  });
});

it('requests of different cost share one budget, and a request that does not fit takes nothing', async () => {
  const ip = freshIp();
  const cost = async (path: string, method = 'GET') => {
    const { status, headers } = await weir.call(path, { ip, method });
    return [status, headers.get('X-RateLimit-Cost'), headers.get('X-RateLimit-Remaining')];
  };
  expect(await cost('/budget/x')).toEqual([200, '1', '99']);
  expect(await cost('/budget/search')).toEqual([200, '5', '94']);
  expect(await cost('/budget/ai', 'POST')).toEqual([200, '60', '34']);
  expect(await cost('/budget/ai', 'POST')).toEqual([429, '60', '34']);
  expect(await cost('/budget/ai')).toEqual([200, '1', '33']);
});

it('clients never see the name of a rule', async () => {
  const ip = freshIp();
  const answers = [];
  for (let i = 0; i < 2; i += 1) answers.push(await weir.call('/budget/ai', { ip, method: 'POST' }));
  const quota = await weir.call('/_weir/quota', { ip });
  const read = await Promise.all(
    [...answers, quota].map(async (answer) => JSON.stringify([...answer.headers]) + (await answer.text())),
  );
  expect(answers.map(({ status }) => status)).toEqual([200, 429]);
  expect(read.join()).toContain('budget');
  expect(read.join()).not.toContain('sales');
});

it('an exception is not counted, and a replacement is counted by its own limit alone', async () => {
  const ip = freshIp();
  for (let i = 0; i < 5; i += 1) {
    const free = await weir.call('/several/health', { ip });
    expect([free.status, policies(free)]).toEqual([200, []]);
    const bulk = await weir.call('/several/bulk', { ip });
    expect([bulk.status, policies(bulk)]).toEqual([200, ['several-bulk-ip']]);
  }
  const answer = await weir.call('/several/x', { ip });
  expect(answer.headers.get('X-RateLimit-Remaining')).toBe('2');
});
