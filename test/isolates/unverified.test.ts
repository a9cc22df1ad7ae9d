// UNVERIFIED=reject: a bad key or token gets 401. One that cannot be looked up does not.
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Weir } from '../../local/weir.ts';
import { API_KEY_RANDOM_BYTES, createApiKey } from '../../src/identity/api-key.ts';
import { startWeir } from '../shared/weir.ts';

let weir: Weir;
beforeAll(async () => {
  const variables = {
    UNVERIFIED: 'reject',
    JWT: JSON.stringify({ algorithms: ['HS256'] }),
    JWT_SECRET: 'a-secret-of-at-least-thirty-two-characters',
  };
  weir = await startWeir(variables, { isolates: ['one'] });
  await weir.admin('/publish', { method: 'POST' });
});
afterAll(() => weir?.[Symbol.asyncDispose]());

const madeUpKey = () => createApiKey(crypto.getRandomValues(new Uint8Array(API_KEY_RANDOM_BYTES)));
const statusWith = async (headers: Record<string, string>) => (await weir.call('/x', { headers })).status;

it('UNVERIFIED=reject answers 401 and a challenge to an invalid credential, and admits other requests', async () => {
  const { key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body: {} });
  expect(await statusWith({})).toBe(200);
  expect(await statusWith({ 'X-API-Key': key })).toBe(200);
  const refused = await weir.call('/x', { headers: { 'X-API-Key': await madeUpKey() } });
  expect([refused.status, refused.headers.get('WWW-Authenticate')]).toEqual([
    401,
    'ApiKey header="X-API-Key"',
  ]);
  const token = await weir.call('/x', { headers: { Authorization: 'Bearer a.b.c' } });
  expect([token.status, token.headers.get('WWW-Authenticate')]).toEqual([
    401,
    'Bearer error="invalid_token"',
  ]);
  expect(await token.json()).toMatchObject({ code: 'unverified-credentials' });
});

it('UNVERIFIED=reject lets no made-up key through, however many one address sends', async () => {
  const ip = '192.0.2.77';
  const statuses: number[] = [];
  for (let i = 0; i < 40; i += 1)
    statuses.push((await weir.call('/x', { ip, headers: { 'X-API-Key': await madeUpKey() } })).status);
  expect(new Set(statuses)).toEqual(new Set([401, 429]));
});

it('UNVERIFIED=reject answers 401 to an invalid credential beside a valid one', async () => {
  const { key } = await weir.admin<{ key: string }>('/keys', { method: 'POST', body: {} });
  for (const token of ['Bearer a.b.c', 'Bearer\ta.b.c', 'Bearer', 'Bearer:a.b.c', 'BearerX a.b.c'])
    expect([token, await statusWith({ 'X-API-Key': key, Authorization: token })]).toEqual([token, 401]);
  expect(await statusWith({ 'X-API-Key': key, Authorization: 'Basic YTpi' })).toBe(200);
});

it('UNVERIFIED=reject does not refuse a caller that could not be looked up', async () => {
  await weir.stack.stopPostgres();
  const answer = await weir.call('/x', { headers: { 'X-API-Key': await madeUpKey() } });
  expect([answer.status, answer.headers.get('X-Weir-Degraded')]).toEqual([200, 'caller-unknown']);
});
