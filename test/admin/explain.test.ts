// "Why is this request limited?", asked of real rules in Postgres and real counters in Redis.
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { counterId, groupOf, subjectKey } from '../../src/core/counting/keys.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { type Harness, startHarness, TOKEN } from '../local/upstash-gateway-harness.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

interface Explained {
  readonly path: string;
  readonly caller: Record<string, string | null>;
  readonly region: string | null;
  readonly listed: string | null;
  readonly applies: {
    id: string;
    name: string;
    limit: number;
    limitFrom: string;
    subject: { scope: string; id: string | null };
    left: { allowed: boolean; remaining: number; retryAfterMs: number | null } | null;
  }[];
  readonly doesNotApply: { id: string; name: string; reason: string; detail: string }[];
  readonly doesNotApplyCount: number;
}

let redis: Harness;
let store: CounterStore;
let admin: Admin;
let sql: pg.Client;
beforeAll(async () => {
  redis = await startHarness();
  store = createUpstashStore(createClient({ url: redis.gateway.url, token: TOKEN }));
  const regions = [
    { name: 'eu', share: 1, store },
    {
      name: 'us',
      share: 1,
      store: createUpstashStore(createClient({ url: redis.gateway.url, token: 'wrong' })),
    },
  ];
  admin = await startAdmin({ regions });
  sql = new pg.Client({ connectionString: admin.db.url });
  await sql.connect();
});
afterAll(async () => {
  await sql.end();
  await admin[Symbol.asyncDispose]();
  await redis.stop();
});
beforeEach(async () => {
  await sql.query(
    'delete from rules; delete from list_entries; delete from api_keys; delete from users; delete from tenants; delete from tiers',
  );
});

const RULE = { resource: '/*', scope: 'ip', algorithm: 'fixed-window', limit: 10, windowSeconds: 86_400 };

async function post(path: string, body: object): Promise<{ id: string }> {
  const response = await admin.call(path, { method: 'POST', body });
  expect(response.ok, await response.clone().text()).toBe(true);
  return (await response.json()) as { id: string };
}
const create = (name: string, more: object = {}) => post('/rules', { ...RULE, name, ...more });

const ask = (body: object, token?: string) => admin.call('/explain', { method: 'POST', body, token });
async function explain(body: object): Promise<Explained> {
  const response = await ask(body);
  expect(response.status, await response.clone().text()).toBe(200);
  return (await response.json()) as Explained;
}
const reasons = ({ doesNotApply }: Explained) =>
  Object.fromEntries(doesNotApply.map(({ name, reason }) => [name, reason]));

describe('an explanation', () => {
  test('names the rules that apply, their subjects and what is left, and charges nothing', async () => {
    const { id } = await create('per-ip');
    await create('per-user', { scope: 'user', limit: 5, action: 'log' });
    const { rows } = await sql.query('select ordinal from rules where id = $1', [id]);
    const counter = await counterId(id, 'fixed-window', 86_400_000);
    const { ordinal } = rows[0];
    const group = groupOf({ algorithm: 'fixed-window', counterId: counter, ordinal });
    const key = await subjectKey('ip', '192.0.2.1', group);
    const check = {
      key,
      id: counter,
      algorithm: 'fixed-window',
      limit: 10,
      windowMs: 86_400_000,
      cost: 1,
    } as const;
    await store.take({ checks: [check] }, AbortSignal.timeout(5_000));

    for (let i = 0; i < 2; i += 1) {
      const { applies, region } = await explain({ path: '/x', ip: '192.0.2.1', userId: 'u1' });
      expect(region).toBeNull();
      expect(applies.sort((a, b) => (a.name < b.name ? -1 : 1))).toMatchObject([
        {
          id,
          name: 'per-ip',
          limit: 10,
          limitFrom: 'rule',
          subject: { scope: 'ip', id: '192.0.2.1' },
          // Only one unit is known to be used, because the other region does not answer.
          left: { allowed: true, remaining: 9, retryAfterMs: 0 },
          leased: 7,
          moving: null,
        },
        {
          name: 'per-user',
          action: 'log',
          leased: null,
          subject: { scope: 'user', id: 'u1' },
          left: { remaining: 5 },
        },
      ]);
    }
  });

  test('says what depends on the address, if none is given', async () => {
    await create('per-ip', { priority: 3 });
    await create('per-user', { scope: 'user' });
    await create('per-ip-and-user', { scope: 'tenant', by: ['ip', 'user'], resource: '/x' });
    await create('some-ips', { subjects: ['192.0.2.1'], resource: '/x' });
    const asked = { path: '/x', userId: 'u1', tenantId: 't1' };
    const { applies, doesNotApply } = await explain(asked);
    const found = Object.fromEntries(
      applies.map(({ name, subject, left }) => [name, [subject, left?.remaining]]),
    );
    expect(found).toEqual({
      'per-ip': [{ scope: 'ip', id: null }, undefined],
      'per-user': [{ scope: 'user', id: 'u1' }, 10],
      'per-ip-and-user': [{ scope: 'by', id: null }, undefined],
    });
    expect(doesNotApply).toMatchObject([
      { name: 'some-ips', detail: 'It is for some addresses only, so it depends on the address.' },
    ]);
    const withAddress = await explain({ ...asked, ip: '192.0.2.1' });
    expect(withAddress.applies.every(({ subject, left }) => subject.id !== null && left !== null)).toBe(true);
  });

  test('takes a key by its name, unless several have it', async () => {
    const { id } = await post('/keys', { name: 'ci', userId: 'u1' });
    const { caller } = await explain({ path: '/x', apiKeyId: 'ci' });
    expect(caller).toMatchObject({ apiKeyId: id, userId: 'u1' });
    await post('/keys', { name: 'ci' });
    const refused = (await (await ask({ path: '/x', apiKeyId: 'ci' })).json()) as { errors: object[] };
    expect(refused.errors).toEqual([
      {
        pointer: '#/apiKeyId',
        detail: expect.stringMatching(/^must be an id, because several keys.*: .*, /),
      },
    ]);
    expect(JSON.stringify(refused)).toContain(id);
  });

  test('says that a caller without an id is counted by IP, and IPv6 by its prefix', async () => {
    await create('per-user', { scope: 'user' });
    const { applies, caller } = await explain({ path: '/x', ip: '2001:db8:1:2:3:4:5:6' });
    expect(applies[0]?.subject).toEqual({ scope: 'ip', id: '2001:db8:1:2::/64' });
    expect(caller).toEqual({
      ip: '2001:db8:1:2::/64',
      userId: null,
      apiKeyId: null,
      tenantId: null,
      tier: null,
    });
  });

  test('gives a reason for every rule that does not apply', async () => {
    await post('/tiers', { name: 'free', isDefault: true, limits: { calls: null } });
    await create('wins', { priority: 1 });
    await create('outranked');
    await create('off', { enabled: false });
    await create('elsewhere', { resource: '/other' });
    await create('posts', { methods: ['POST'], resource: '/x' });
    await create('pros', { tiers: ['pro'], resource: '/x/*' });
    await create('others', { subjects: ['192.0.2.9'], resource: '/:any' });
    await create('free-for-all', { scope: 'user', limit: null, limitName: 'calls' });
    await sql.query(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds)
      values ('bad', '/a*b', 'ip', 'fixed-window', 1, 1)`);

    const explained = await explain({ path: '/x', ip: '192.0.2.1' });
    expect(explained.applies.map(({ name }) => name)).toEqual(['wins']);
    expect(reasons(explained)).toEqual({
      bad: 'rejected',
      outranked: 'outranked',
      off: 'disabled',
      elsewhere: 'resource',
      posts: 'method',
      pros: 'tier',
      others: 'subject',
      'free-for-all': 'unlimited',
    });
    expect(explained.doesNotApplyCount).toBe(8);
    const details = Object.fromEntries(explained.doesNotApply.map(({ name, detail }) => [name, detail]));
    expect(details.bad).toContain('may have a * only at its end');
    expect(details.outranked).toContain('wins comes before it: it has priority 1, this one 100');
    expect(details.pros).toBe('It is for callers of pro; this one is of free.');
    // Rejected rules come first and those for other resources last, whatever the order of creation.
    expect(explained.doesNotApply[0]?.name).toBe('bad');
    expect(explained.doesNotApply.at(-1)?.name).toBe('elsewhere');
  });

  test('takes tier and tenant from the known key or user, unless the question gives them', async () => {
    await post('/tiers', { name: 'free', isDefault: true, limits: { calls: 1 } });
    await post('/tiers', { name: 'pro', limits: { calls: 100 } });
    await post('/tenants', { id: 'acme', tier: 'pro' });
    await post('/users', { id: 'u1', tenantId: 'acme' });
    const { id: apiKeyId } = await post('/keys', { userId: 'u1' });
    await create('calls', { limit: 7, limitName: 'calls' });

    const known = { tenantId: 'acme', userId: 'u1', tier: 'pro' };
    const byKey = await explain({ path: '/x', apiKeyId });
    expect(byKey.caller).toMatchObject({ ...known, apiKeyId });
    expect(byKey.applies).toMatchObject([{ limit: 100, limitFrom: 'tier' }]);
    expect((await explain({ path: '/x', userId: 'u1' })).caller).toMatchObject(known);
    expect((await explain({ path: '/x', userId: 'u1', tier: 'free' })).applies).toMatchObject([{ limit: 1 }]);
    // A caller with an unknown tier has the default one.
    expect((await explain({ path: '/x', tier: 'unheard-of' })).applies).toMatchObject([{ limit: 1 }]);
  });

  test('takes the key itself, and does not repeat it', async () => {
    const { id: apiKeyId, key } = (await post('/keys', { userId: 'u1' })) as { id: string; key: string };
    const response = await ask({ path: '/x', apiKey: key });
    const text = await response.text();
    expect(JSON.parse(text)).toMatchObject({ caller: { apiKeyId, userId: 'u1' } });
    expect(text).not.toContain(key);
    // A key that belongs to nobody counts by IP, as in a real request.
    expect((await explain({ path: '/x', apiKey: `${key}x` })).caller).toMatchObject({
      apiKeyId: null,
      userId: null,
    });
    const refused = await ask({ path: '/x', apiKey: key, apiKeyId });
    expect(refused.status).toBe(400);
    expect(await refused.text()).not.toContain(key);
    await sql.query('update api_keys set disabled = true');
    expect((await explain({ path: '/x', apiKey: key })).caller).toMatchObject({ apiKeyId: null });
  });

  test('shows the limit of the rule if the tier has no limit of that name', async () => {
    await post('/tiers', { name: 'free', isDefault: true, limits: { calls: 1 } });
    await create('exports', { limit: 7, limitName: 'exports' });
    expect((await explain({ path: '/x' })).applies).toMatchObject([{ limit: 7, limitFrom: 'rule' }]);
  });

  test('names the list that the caller is on', async () => {
    await create('per-ip');
    await post('/lists', { list: 'deny', kind: 'ip', value: '192.0.2.0/24' });
    expect(await explain({ path: '/x', ip: '192.0.2.1' })).toMatchObject({
      listed: 'deny',
      applies: [{ left: null }],
    });
    expect(await explain({ path: '/x', ip: '198.51.100.1' })).toMatchObject({ listed: null });
  });

  test('reads the path as the gateway does', async () => {
    await create('users', { resource: '/users/:id' });
    const { path, applies } = await explain({ path: '//Users/./%34%32/?q=1' });
    expect(path).toBe('/Users/42/');
    expect(applies.map(({ name }) => name)).toEqual(['users']);
  });

  test('leaves out the counters if they do not answer', async () => {
    await create('per-ip');
    expect((await explain({ path: '/x', region: 'us' })).applies).toMatchObject([
      { name: 'per-ip', left: null },
    ]);
  });

  test('shows at most 1,000 rules that do not apply, and begins with rules for the same resource', async () => {
    await sql.query(`insert into rules (name, resource, scope, algorithm, "limit", window_seconds, methods, priority)
      select 'r' || i, case when i > 1995 then '/x' else '/r' || i end, 'ip', 'fixed-window', 1, 1, '{POST}', i
      from generate_series(1, 2000) i`);
    const { doesNotApply, doesNotApplyCount } = await explain({ path: '/x' });
    expect(doesNotApplyCount).toBe(2_000);
    expect(doesNotApply).toHaveLength(1_000);
    expect(doesNotApply.slice(0, 6).map(({ reason }) => reason)).toEqual([
      ...Array(5).fill('method'),
      'resource',
    ]);
  });

  test('may be asked for by a token that may only read', async () => {
    expect((await ask({ path: '/x' }, TOKENS.read.token)).status).toBe(200);
  });
});

test.each<[object, string, string]>([
  [{ path: '/a%2Fb' }, 'bad-path', '#/path'],
  [{ path: '/_weir/health' }, 'bad-path', '#/path'],
  [{ path: 'x' }, 'invalid-body', '#/path'],
  [{}, 'invalid-body', '#/path'],
  [{ path: '/x', ip: '300.1.1.1' }, 'invalid-body', '#/ip'],
  [{ path: '/x', region: 'mars' }, 'invalid-body', '#/region'],
  [{ path: '/x', method: 'get' }, 'invalid-body', '#/method'],
  [{ path: '/x', user: 'u1' }, 'invalid-body', '#/user'],
  [{ path: '/x', apiKeyId: 'u1' }, 'invalid-body', '#/apiKeyId'],
])('%j cannot be explained', async (body, code, pointer) => {
  const response = await ask(body);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code, errors: [{ pointer, detail: expect.any(String) }] });
});
