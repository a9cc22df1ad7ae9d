// Users of verified tokens that carry neither tenant nor tier: Weir takes both from the user's row, from the first
// request of a cold isolate on.
import { SignJWT } from 'jose';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { IsolateName, Weir } from '../../local/weir.ts';
import { startWeir } from '../shared/weir.ts';

const SECRET = 'a-secret-of-at-least-thirty-two-characters';
const ISOLATES: readonly IsolateName[] = ['one', 'two', 'three'];
const TENANT_LIMIT = 5;
const USERS = 120;
const HOUR = { algorithm: 'sliding-window-log', windowSeconds: 3600 };

let weir: Weir;
beforeAll(async () => {
  weir = await startWeir({
    JWT: JSON.stringify({ algorithms: ['HS256'] }),
    JWT_SECRET: SECRET,
    DEADLINE_MS: '60000',
  });
  await add('/tiers', { name: 'free', isDefault: true, limits: { calls: 2 } });
  await add('/tiers', { name: 'premium', limits: { calls: 1000 } });
  for (const id of ['acme', 'banned', 'named']) await add('/tenants', { id });
  await add('/rules', { ...HOUR, resource: '/by-tenant', scope: 'tenant', limit: TENANT_LIMIT });
  await add('/rules', { ...HOUR, resource: '/by-tier', scope: 'user', limit: 2, limitName: 'calls' });
  await add('/lists', { list: 'deny', kind: 'tenant', value: 'banned' });
  await weir.sql(`insert into users (id, tenant_id, tier)
    select 'acme-' || n, 'acme', null from generate_series(1, ${USERS}) n
    union all select 'banned-user', 'banned', null
    union all select 'named-user', 'named', null
    union all select 'premium-user', null, 'premium'`);
  await weir.admin('/publish', { method: 'POST' });
  for (const isolate of ISOLATES) await untilRulesIn(isolate);
});
afterAll(() => weir?.[Symbol.asyncDispose]());

/** Asks without a token, so the isolate stays cold for every user. */
const untilRulesIn = (isolate: IsolateName) =>
  vi.waitFor(
    async () => {
      const { headers } = await weir.call('/by-tenant', { isolate });
      expect(headers.get('X-RateLimit-Limit')).toBe(String(TENANT_LIMIT));
    },
    { timeout: 30_000 },
  );

type Headers = Record<string, string>;

const add = (path: string, body: object) => weir.admin(path, { method: 'POST', body });

async function callAs(user: string, path: string, isolate: IsolateName, others: Headers = {}) {
  const token = await new SignJWT({})
    .setProtectedHeader({ alg: 'HS256' })
    .setSubject(user)
    .setExpirationTime('1h')
    .sign(new TextEncoder().encode(SECRET));
  return weir.call(path, { isolate, headers: { Authorization: `Bearer ${token}`, ...others } });
}

describe('a cold isolate that sees a user for the first time', () => {
  it('counts the user for the tenant of its row: a tenant of 120 users gets its limit, and no more', async () => {
    const statuses: number[] = [];
    // One to each isolate at a time: the subject is who is counted, and not how much the machine can do.
    for (let i = 0; i < USERS; i += ISOLATES.length) {
      const calls = ISOLATES.map((isolate, n) => callAs(`acme-${i + n + 1}`, '/by-tenant', isolate));
      for (const { status } of await Promise.all(calls)) statuses.push(status);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(TENANT_LIMIT);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
  });

  it.each(ISOLATES)('refuses a user whose tenant is on the deny list (isolate %s)', async (isolate) => {
    expect((await callAs('banned-user', '/elsewhere', isolate)).status).toBe(403);
  });

  it.each(ISOLATES)('serves a premium user by the limits of that tier (isolate %s)', async (isolate) => {
    const { headers } = await callAs('premium-user', '/by-tier', isolate);
    expect(headers.get('X-RateLimit-Limit')).toBe('1000');
  });

  it.each(ISOLATES)('tells the origin the tenant and the tier of the row (isolate %s)', async (isolate) => {
    expect(await identityAtOrigin('named-user', isolate)).toEqual({ tenant: 'named', tier: 'free' });
    expect(await identityAtOrigin('premium-user', isolate)).toEqual({ tenant: undefined, tier: 'premium' });
  });
});

describe('a token beside an API key', () => {
  const issue = async (body: object = {}) => {
    const made = await weir.admin<{ id: string; key: string }>('/keys', { method: 'POST', body });
    return { id: made.id, headers: { 'X-API-Key': made.key } };
  };

  it('is held against the deny list, too', async () => {
    for (const body of [{}, { userId: 'somebody' }, { tenantId: 'named' }]) {
      const { headers } = await issue(body);
      expect((await callAs('banned-user', '/elsewhere', 'one', headers)).status).toBe(403);
      expect((await callAs('named-user', '/elsewhere', 'one', headers)).status).toBe(200);
    }
  });

  it('of another user is not named to the origin', async () => {
    const { id, headers } = await issue({ userId: 'somebody' });
    const seen = await headersAtOrigin(await callAs('named-user', '/echo', 'one', headers));
    expect(['x-weir-user', 'x-weir-key-id', 'x-weir-tenant'].map((name) => seen.get(name))).toEqual([
      'somebody',
      id,
      undefined,
    ]);
  });

  it('of a user is no way around the limit of that user, if the key names no user', async () => {
    const statuses: number[] = [];
    for (let i = 0; i < 4; i += 1) {
      const { headers } = await issue();
      statuses.push((await callAs('acme-1', '/by-tier', 'one', headers)).status);
    }
    expect(statuses).toEqual([200, 200, 429, 429]);
  });
});

async function headersAtOrigin(answer: Response) {
  const { headers } = (await answer.json()) as { headers: [string, string][] };
  return new Map(headers.map(([name, value]) => [name.toLowerCase(), value]));
}

async function identityAtOrigin(user: string, isolate: IsolateName) {
  const seen = await headersAtOrigin(await callAs(user, '/echo', isolate));
  return { tenant: seen.get('x-weir-tenant'), tier: seen.get('x-weir-tier') };
}
