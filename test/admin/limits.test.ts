// The current limits of a caller, by the rules in force and the real Redis of several regions.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { planRequest } from '../../src/core/matching/plan.ts';
import { compileSnapshot, type Snapshot } from '../../src/core/matching/snapshot.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { readContent } from '../../src/rules/publishing/content.ts';
import { type Harness, startHarness, TOKEN } from '../local/upstash-gateway-harness.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

let admin: Admin;
let harnesses: Harness[] = [];
let keyId = '';
const inForce: { rules: Snapshot | undefined } = { rules: undefined };

const create = async <T>(path: string, body: object) =>
  (await (await admin.call(path, { method: 'POST', body })).json()) as T;
const rule = { algorithm: 'sliding-window-log', limit: 10, windowSeconds: 86_400 };

async function regionsOf() {
  harnesses = [await startHarness(), await startHarness()];
  return harnesses.map(({ gateway }, i) => ({
    name: i === 0 ? 'us' : 'eu',
    share: 1,
    store: createUpstashStore(createClient({ url: gateway.url, token: TOKEN })),
  }));
}
let regions: Awaited<ReturnType<typeof regionsOf>>;

beforeAll(async () => {
  regions = await regionsOf();
  admin = await startAdmin({ regions, deadlineMs: 5_000, rulesInForce: async () => inForce.rules });
  await create('/tiers', { name: 'gold', limits: { calls: 70 } });
  await create('/tenants', { id: 'acme', tier: 'gold' });
  await create('/users', { id: 'ada', tenantId: 'acme' });
  ({ id: keyId } = await create<{ id: string }>('/keys', { name: 'ci', userId: 'ada' }));
  await create('/rules', { ...rule, name: 'by user', resource: '/a', scope: 'user' });
  await create('/rules', { ...rule, name: 'by address', resource: '/b', scope: 'ip' });
  await create('/rules', { ...rule, name: 'by tier', resource: '/c', scope: 'tenant', limitName: 'calls' });
  await create('/rules', {
    ...rule,
    name: 'for bob',
    resource: '/a',
    scope: 'user',
    subjects: ['bob'],
    limit: 99,
    validUntil: '2099-01-01T00:00:00Z',
  });
  await create('/lists', { list: 'deny', kind: 'user', value: 'eve' });
  const { content } = await readContent(admin.db.database, Date.now());
  inForce.rules = compileSnapshot('v1', {
    ...content,
    rules: content.rules.filter(({ enabled }) => enabled !== false),
  });
});
afterAll(async () => {
  await admin?.[Symbol.asyncDispose]();
  for (const harness of harnesses) await harness.stop();
});

interface Limits {
  readonly caller: Record<string, string | null>;
  readonly rulesVersion: string;
  readonly listed: string | null;
  readonly dependsOnAddress: readonly { name: string; scope: string; limit: number }[];
  readonly limits: readonly {
    name: string;
    limit: number;
    isOverride: boolean;
    validUntil: string | null;
    scope: string;
    subject: object;
    left: { remaining: number; allowed: boolean } | null;
  }[];
}

async function limitsOf(scope: string, subject: string): Promise<Limits> {
  const asked = new URLSearchParams({ scope, subject });
  const response = await admin.call(`/limits?${asked}`, { token: TOKENS.read.token });
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Limits;
}

/** One request of a user, counted in a region as by the gateway. */
async function take(region: number, userId: string) {
  if (!inForce.rules) throw new Error('no rules');
  const request = {
    caller: { ip: '10.9.9.9', address: '10.9.9.9', userId },
    nowMs: Date.now(),
    seatId: () => 'x'.repeat(16),
    matchPath: '/a',
    method: 'GET',
  };
  const plan = await planRequest(inForce.rules, request);
  if (plan.kind !== 'checks') throw new Error('listed');
  await regions[region]?.store.take({ checks: plan.checks }, AbortSignal.timeout(5_000));
}

describe('the limits of a caller', () => {
  it('come from all rules that count it, with what is left in all regions, and asking charges nothing', async () => {
    await take(0, 'ada');
    await take(1, 'ada');
    await take(1, 'ada');
    for (let i = 0; i < 3; i += 1) {
      const { caller, limits, rulesVersion } = await limitsOf('user', 'ada');
      expect(caller).toEqual({ ip: null, userId: 'ada', apiKeyId: null, tenantId: 'acme', tier: 'gold' });
      expect(rulesVersion).toBe('v1');
      expect(limits.map(({ name, limit, left }) => [name, limit, left?.remaining])).toEqual([
        ['by user', 10, 7],
        ['by tier', 70, 70],
      ]);
    }
  });

  it('that count the address are named, because they limit the caller, too', async () => {
    const { dependsOnAddress } = await limitsOf('user', 'ada');
    expect(dependsOnAddress).toMatchObject([{ name: 'by address', scope: 'ip', limit: 10 }]);
    const ofTenant = await limitsOf('tenant', 'acme');
    expect(ofTenant.limits.map(({ name }) => name)).toEqual(['by tier']);
    expect(ofTenant.dependsOnAddress.map(({ name, scope }) => [name, scope])).toEqual([
      ['by user', 'user'],
      ['by address', 'ip'],
    ]);
    expect((await limitsOf('ip', '198.51.100.1')).dependsOnAddress).toEqual([]);
  });

  it.each(['id', 'name'])(
    'identified by the %s of a key include those of its user and tenant',
    async (by) => {
      const { caller, limits } = await limitsOf('apiKey', by === 'id' ? keyId : 'ci');
      expect(caller).toMatchObject({ apiKeyId: keyId, userId: 'ada', tenantId: 'acme' });
      expect(limits.map(({ name }) => name)).toEqual(['by user', 'by tier']);
    },
  );

  it('known only by address include rules that count such a caller by address, and name the address', async () => {
    const { limits } = await limitsOf('ip', '198.51.100.1');
    expect(limits.map(({ name, scope, subject }) => [name, scope, subject])).toEqual(
      expect.arrayContaining([
        ['by user', 'user', { scope: 'ip', id: '198.51.100.1' }],
        ['by address', 'ip', { scope: 'ip', id: '198.51.100.1' }],
        ['by tier', 'tenant', { scope: 'ip', id: '198.51.100.1' }],
      ]),
    );
    expect(limits).toHaveLength(3);
  });

  it('can be asked for by an IPv6 address or by its prefix', async () => {
    const [whole, prefix] = [await limitsOf('ip', '2001:db8::7'), await limitsOf('ip', '2001:db8::/64')];
    expect(prefix).toEqual({ ...whole, limits: expect.anything() });
    expect(prefix.caller['ip']).toBe('2001:db8::/64');
  });

  it('name an override, and when it ends', async () => {
    const [first] = (await limitsOf('user', 'bob')).limits;
    expect(first).toMatchObject({
      name: 'for bob',
      limit: 99,
      isOverride: true,
      validUntil: '2099-01-01T00:00:00.000Z',
    });
  });

  it('name the list that the caller is on', async () => {
    expect((await limitsOf('user', 'eve')).listed).toBe('deny');
  });

  it.each([
    ['scope=ip&subject=nonsense', 400, 'must be an IPv4 or IPv6 address'],
    ['scope=apiKey&subject=wk_something', 400, 'must be the id or the name of a key, not the key'],
    ['scope=apiKey&subject=00000000-0000-4000-8000-000000000000', 404, 'There is no such key'],
    ['scope=global&subject=all', 400, 'scope'],
  ])('refuse %s with %i', async (query, status, said) => {
    const response = await admin.call(`/limits?${query}`);
    expect(response.status).toBe(status);
    expect(await response.text()).toContain(said);
  });

  it('are not known while an isolate has no rules', async () => {
    const { rules } = inForce;
    inForce.rules = undefined;
    expect((await admin.call('/limits?scope=user&subject=ada')).status).toBe(503);
    inForce.rules = rules;
  });

  it('do not show what is left while no region answers', async () => {
    for (const { gateway } of harnesses) await gateway.faults.set({ status: 500 });
    const { limits } = await limitsOf('user', 'ada');
    for (const { gateway } of harnesses) await gateway.faults.clear();
    expect(limits.map(({ left }) => left)).toEqual([null, null]);
  });
});

describe('searching', () => {
  it.each([
    ['users', 'AD', ['ada']],
    ['tenants', 'cm', ['acme']],
    ['tenants', '100%', []],
  ])('%s by %s finds parts of ids in any case', async (path, q, ids) => {
    const { items } = (await (await admin.call(`/${path}?q=${encodeURIComponent(q)}`)).json()) as {
      items: { id: string }[];
    };
    expect(items.map(({ id }) => id)).toEqual(ids);
  });

  it('keys finds them by name and by owner', async () => {
    for (const q of ['CI', 'ada']) {
      const { items } = (await (await admin.call(`/keys?q=${q}`)).json()) as { items: { id: string }[] };
      expect(items.map(({ id }) => id)).toEqual([keyId]);
    }
  });
});
