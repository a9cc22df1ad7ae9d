// Rules that count by more than a scope, made through the admin route and seen by a client of the built Worker.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { policiesIn } from '../http/headers-harness.ts';
import { startWeir } from '../shared/weir.ts';

const DAY = 86_400;
const COMMON = { scope: 'ip', algorithm: 'fixed-window', windowSeconds: DAY };
const RULES = [
  { ...COMMON, policy: 'model', resource: '/chat', by: ['ip', 'header:X-Model'], limit: 2, boundTimes: 3 },
  { ...COMMON, policy: 'each', resources: ['/each/a', '/each/b*'], per: ['route', 'method'], limit: 1 },
];

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  for (const body of RULES) await weir.admin('/rules', { method: 'POST', body });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

it('rules of every kind are in force soon', async () => {
  const policiesAt = async (path: string) => {
    const { headers } = await weir.call(path, { ip: freshIp() });
    return headers.has('RateLimit-Policy');
  };
  await expect.poll(() => policiesAt('/each/a')).toBe(true);
  await expect.poll(() => policiesAt('/chat')).toBe(true);
});

it('a client that makes up headers gets no more than the bound', async () => {
  const ip = freshIp();
  const statuses: number[] = [];
  for (let i = 0; i < 8; i += 1)
    statuses.push((await weir.call('/chat', { ip, headers: { 'X-Model': `made-up-${i}` } })).status);
  expect(statuses).toEqual([200, 200, 200, 200, 200, 200, 429, 429]);
});

it('each value has its own limit, and the headers show both policies', async () => {
  const ip = freshIp();
  const call = (model: string) => weir.call('/chat', { ip, headers: { 'X-Model': model } });
  expect([(await call('a')).status, (await call('a')).status, (await call('a')).status]).toEqual([
    200, 200, 429,
  ]);
  const other = await call('b');
  expect(other.status).toBe(200);
  expect(policiesIn(other.headers, 'RateLimit').map(({ name, parameters }) => [name, parameters.r])).toEqual([
    ['model', 1],
    ['model-bound', 3],
  ]);
});

it('each route and each method has a counter of its own', async () => {
  const ip = freshIp();
  const status = async (path: string, method = 'GET') => (await weir.call(path, { ip, method })).status;
  expect(await status('/each/a')).toBe(200);
  expect(await status('/each/a')).toBe(429);
  expect(await status('/each/a', 'POST')).toBe(200);
  expect(await status('/each/bees')).toBe(200);
  expect(await status('/each/b')).toBe(429);
});
