// What is recorded equals what was sent: random rules with several limits, requests and checks, on a whole Weir.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../local/random.ts';
import type { Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
let key = '';
beforeAll(async () => {
  weir = await startWeir({ TELEMETRY_SECONDS: '0.1' }, { isolates: ['one'] });
  await weir.admin('/tenants', { method: 'POST', body: { id: 'acme' } });
  const body = { name: 'k', userId: 'ann', tenantId: 'acme' };
  ({ key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body }));
});
afterAll(() => weir?.[Symbol.asyncDispose]());

interface Used {
  readonly key: string;
  readonly requests: number;
  readonly cost: number;
}
const usageBy = async (query: string) =>
  (await weir.admin<{ items: Used[] }>(`/usage?${query}`)).items.map(({ requests, cost }) => ({
    requests,
    cost,
  }));
const denialsOf = async (rule: string) => {
  const path = `/events?rule=${rule}&limit=100`;
  const { items } = await weir.admin<{ items: { count: number; subject: string }[] }>(path);
  return items.reduce((sum, { count }) => sum + count, 0);
};
const metric = async (name: string, labels: string) => {
  const headers = { Authorization: `Bearer ${weir.token}` };
  const text = await (await weir.call('/_weir/metrics', { headers })).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`) && line.includes(labels));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
};

const check = async (path: string, body: object) => {
  const headers = { Authorization: `Bearer ${weir.token}` };
  const answer = await weir.call(`/_weir/check${path}`, { method: 'POST', body, headers });
  const text = await answer.text();
  return JSON.parse(text || '{}') as { allowed?: boolean; id?: string; errors?: { detail: string }[] };
};

/** A check makes the isolate load the rule. One that only looks leaves no records. */
const isInForce = async (rule: string) => {
  const { errors = [] } = await check('', { rule, subject: 'nobody', peek: true });
  return !errors.some(({ detail }) => detail.includes('there is no such rule'));
};

const limitsOf = (random: () => number) => {
  const windows = [3_600, 7_200, 86_400].slice(0, 2 + Math.floor(random() * 2));
  return windows.map((windowSeconds) => ({ limit: 4 + Math.floor(random() * 30), windowSeconds }));
};

describe.each([1, 2, 3, 4])('random rules of seed %d', (seed) => {
  it('leave the usage, denials and metrics of what was sent', async () => {
    const random = createRandom(seed);
    const isShadow = seed === 4;
    const cost = 1 + Math.floor(random() * 3);
    const scope = seed % 2 === 0 ? 'user' : 'apiKey';
    const by = seed === 3 ? { by: ['user', 'header:X-Model'] } : {};
    const rule = { scope, algorithm: 'fixed-window', cost, ...by, ...(isShadow && { action: 'log' }) };
    const [name, resource] = [`random ${seed}`, `/random-${seed}`];
    const body = { ...rule, name, resource, limits: limitsOf(random) };
    const { id } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body });
    await expect.poll(() => isInForce(name)).toBe(true);
    let [admitted, denied] = [0, 0];
    for (let i = 0; i < 25; i += 1) {
      const { status } = await weir.call(resource, { headers: { 'X-API-Key': key, 'X-Model': 'm' } });
      if (status === 429) denied += 1;
      else admitted += 1;
    }
    const used = isShadow ? [] : [{ requests: admitted, cost: admitted * cost }];
    await expect.poll(() => metric('weir_checks_total', `rule="${name}"`)).toBe(25);
    expect(await metric('weir_checks_total', `rule="${name}",result="denied"`)).toBe(denied);
    await expect.poll(() => usageBy(`rule=${id}`)).toEqual(used);
    await expect.poll(() => usageBy(`rule=${id}&user=ann&tenant=acme`)).toEqual(used);
    await expect.poll(() => denialsOf(id)).toBe(denied);
  });
});

describe('checks without a request', () => {
  it('leave usage, denials and metrics, with refunds and settlements; repeats and peeks leave none', async () => {
    const limits = [
      { limit: 20, windowSeconds: 3_600 },
      { limit: 20, windowSeconds: 86_400 },
    ];
    const body = { name: 'jobs', resource: '/jobs', scope: 'tenant', algorithm: 'fixed-window', limits };
    const rule = { ...body, central: true };
    const { id } = await weir.admin<{ id: string }>('/rules', { method: 'POST', body: rule });
    const jobs = (more: object) => check('', { rule: 'jobs', subject: 'checked', ...more });
    const refunded = await jobs({ cost: 5 });
    const settled = await jobs({ cost: 6 });
    await jobs({ cost: 2, idempotencyKey: 'once' });
    await jobs({ cost: 2, idempotencyKey: 'once' });
    await jobs({ peek: true });
    await check('', {
      checks: [
        { rule: 'jobs', subject: 'other' },
        { rule: 'jobs', subject: 'third' },
      ],
    });
    await check('/refund', { id: refunded.id });
    await check('/settle', { id: settled.id, cost: 9 });
    for (let i = 0; i < 3; i += 1) expect((await jobs({ cost: 15 })).allowed).toBe(false);
    await expect.poll(() => usageBy(`rule=${id}&tenant=checked`)).toEqual([{ requests: 3, cost: 11 }]);
    await expect.poll(() => usageBy('tenant=checked')).toEqual([{ requests: 3, cost: 11 }]);
    await expect.poll(() => usageBy(`rule=${id}&tenant=third`)).toEqual([{ requests: 1, cost: 1 }]);
    await expect.poll(() => denialsOf(id)).toBe(3);
    await expect.poll(() => metric('weir_check_calls_total', 'result="admitted"')).toBe(4);
    await expect.poll(() => metric('weir_check_calls_total', 'result="denied"')).toBe(3);
    await expect.poll(() => metric('weir_checks_total', 'rule="jobs",result="denied"')).toBe(3);
  });
});
