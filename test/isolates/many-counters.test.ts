// A caller with more counters than one key of Redis holds, seen by that caller: no counter is ever forgotten.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { freshIp, type Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const DAY = 86_400;
const LIMIT = 3;
const numbers = (count: number) => Array.from({ length: count }, (_, i) => i);
/** Ten rules, each with a counter for each of twenty routes and three limits: 600 counters for each caller. */
const RULES = numbers(10).map((rule) => ({
  name: `each route of ${rule}`,
  resources: numbers(20).map((route) => `/many/${rule}/${route}`),
  per: ['route'],
  scope: 'ip',
  algorithm: 'fixed-window',
  limits: [
    { limit: LIMIT, windowSeconds: DAY },
    { limit: 9, windowSeconds: 2 * DAY },
    { limit: 27, windowSeconds: 3 * DAY },
  ],
}));
const ROUTES = RULES.flatMap(({ resources }) => resources);

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({}, { isolates: ['one'] });
  for (const rule of RULES) await weir.admin('/rules', { method: 'POST', body: rule });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

it('a caller of 200 routes passes as often as its limit allows on each of them, and never again', async () => {
  await expect
    .poll(async () => (await weir.call(ROUTES.at(-1) ?? '', { ip: freshIp() })).headers.has('RateLimit'))
    .toBe(true);
  const ip = freshIp();
  const admitted = new Map(ROUTES.map((route) => [route, 0]));
  const send = async (route: string) => {
    const response = await weir.call(route, { ip });
    await response.arrayBuffer();
    if (response.status === 200) admitted.set(route, (admitted.get(route) ?? 0) + 1);
  };
  for (let round = 0; round < 2 * LIMIT; round += 1)
    for (const { resources } of RULES) await Promise.all(resources.map(send));
  expect([...admitted].filter(([, times]) => times !== LIMIT)).toEqual([]);
});
