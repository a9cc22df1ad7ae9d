// What a stranger or a careless service can try with checks, through HTTP on a whole Weir.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Call, Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const TOKEN = 'a-token-that-may-check';

let weir: Weir;
beforeAll(async () => {
  const tokens = [{ name: 'check', token: TOKEN, role: 'check' }];
  weir = await startWeir({ ADMIN_TOKENS: JSON.stringify(tokens) }, { isolates: ['one', 'two'] });
  const rule = { scope: 'user', algorithm: 'fixed-window', limit: 1_000, windowSeconds: 86_400 };
  const body = { ...rule, name: 'jobs', resource: '/jobs', central: true };
  await weir.admin('/rules', { method: 'POST', body });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

async function post(path: string, body: unknown, { headers, ...call }: Call = {}) {
  const authorization = { Authorization: `Bearer ${TOKEN}`, ...headers };
  const answer = await weir.call(`/_weir/check${path}`, {
    method: 'POST',
    body,
    headers: authorization,
    ...call,
  });
  const text = await answer.text();
  return { status: answer.status, body: text === '' ? {} : JSON.parse(text) };
}

const remaining = async (subject: string) =>
  (await post('', { rule: 'jobs', subject, peek: true })).body.results[0].remaining as number;

describe('an id that was used once', () => {
  const spellings = (id: string) => [
    id,
    ...Array.from({ length: 5 }, (_, i) => `${id}.${i + 1}`),
    ...[`${id}.`, `${id}=`, ` ${id}`, `${id}\n`, id.replace('.', '..'), `${id}.${id}`],
  ];

  it('refunds no second time, however it is spelled', async () => {
    await post('', { rule: 'jobs', subject: 'refunded', cost: 100 });
    const { id } = (await post('', { rule: 'jobs', subject: 'refunded', cost: 10 })).body;
    const statuses = [];
    for (const one of spellings(id)) statuses.push((await post('/refund', { id: one })).status);
    expect(statuses).toEqual([204, ...Array(statuses.length - 1).fill(404)]);
    expect(await remaining('refunded')).toBe(900);
  });

  it('settles no second time, however it is spelled', async () => {
    await post('', { rule: 'jobs', subject: 'settled', cost: 100 });
    const { id } = (await post('', { rule: 'jobs', subject: 'settled', cost: 10 })).body;
    const statuses = [];
    for (const one of spellings(id)) statuses.push((await post('/settle', { id: one, cost: 1 })).status);
    expect(statuses).toEqual([204, ...Array(statuses.length - 1).fill(404)]);
    expect(await remaining('settled')).toBe(899);
  });

  it('is not the id of another check, even of one that charged the same at the same moment', async () => {
    const calls = Array.from({ length: 20 }, () => post('', { rule: 'jobs', subject: 'twins', cost: 2 }));
    const made = (await Promise.all(calls)).map(({ body }) => body.id as string);
    for (const id of made) expect((await post('/refund', { id })).status).toBe(204);
    expect(await remaining('twins')).toBe(1_000);
  });
});

describe('an idempotency key in a header', () => {
  it.each([
    ['an empty one', ''],
    ['one of more than 256 characters', 'k'.repeat(257)],
  ])('is checked like one in the body: %s is refused', async (_, key) => {
    const headers = { 'Idempotency-Key': key };
    expect(await post('', { rule: 'jobs', subject: 'keys' }, { headers })).toMatchObject({
      status: 400,
      body: { code: 'invalid-body', problems: [expect.stringMatching(/^Idempotency-Key: must /)] },
    });
  });
});
