// Resets the counters of a subject, on the real Redis of several regions.
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { counterId, groupOf, hash, subjectKey } from '../../src/core/counting/keys.ts';
import { slotOf } from '../../src/core/matching/resource.ts';
import { type CounterOperations, type CounterStore, operationsBy } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { type Harness, startHarness, TOKEN } from '../local/upstash-gateway-harness.ts';
import { type Admin, startAdmin, TOKENS } from './harness.ts';

let admin: Admin;
let harnesses: Harness[];
const stores: CounterStore[] = [];
const regions = ['eu', 'us'].map((name, i) => ({ name, share: 1, store: delegate(() => stores[i]) }));

/** All tests share Postgres. Each has its own Redis. */
function delegate(current: () => CounterStore | undefined): CounterStore {
  const store = () => current() ?? Promise.reject(new Error('no store'));
  return {
    ...operationsBy(async (operation, call, signal) => {
      const operations: CounterOperations = await store();
      return operations[operation](call, signal);
    }),
    reset: async (keys, signal) => (await store()).reset(keys, signal),
    probe: async (signal) => (await store()).probe(signal),
  };
}

beforeAll(async () => {
  admin = await startAdmin({ regions, deadlineMs: 2_000 });
});
afterAll(() => admin[Symbol.asyncDispose]());
beforeEach(async () => {
  harnesses = [await startHarness(), await startHarness()];
  stores.splice(
    0,
    2,
    ...harnesses.map(({ gateway }) => createUpstashStore(createClient({ url: gateway.url, token: TOKEN }))),
  );
  await admin.db.database.execute('delete from weir.rules');
});
afterEach(async () => {
  for (const harness of harnesses) await harness.stop();
});

interface Shape {
  readonly subject?: string;
  /** The end of its counter's id. */
  readonly variant?: string;
}

let created = 0;
async function createRule(
  scope: string,
  algorithm: AlgorithmId = 'fixed-window',
  { subject = 'x', variant = '', ...fields }: Record<string, unknown> & Shape = {},
) {
  created += 1;
  const body = {
    name: `rule-${created}`,
    resource: '/*',
    scope,
    algorithm,
    limit: 10,
    windowSeconds: 86_400,
    ...fields,
  };
  const response = await admin.call('/rules', { method: 'POST', body });
  const { id } = (await response.json()) as { id: string };
  const { rows } = await admin.db.database.execute<{ ordinal: number }>(
    `select ordinal from weir.rules where id = '${id}'`,
  );
  const counter = `${await counterId(id, algorithm, 86_400_000)}${variant}`;
  const group = groupOf({ algorithm, counterId: counter, ordinal: rows[0]?.ordinal, variant });
  return {
    /** The check as the gateway makes it. */
    async checkOf(countedAs: string, id = subject): Promise<Check> {
      const key = await subjectKey(countedAs, id, group);
      return { key, id: counter, algorithm, limit: 10, windowMs: 86_400_000, cost: 1 };
    },
  };
}

const run = async (operation: 'take' | 'peek', store: CounterStore, check: Check) =>
  (await store[operation]({ checks: [check] }, AbortSignal.timeout(5_000))).outcomes[0]?.remaining;
const takeEverywhere = async (check: Check) => {
  for (const store of stores) expect(await run('take', store, check)).toBe(9);
};
const leftEverywhere = (check: Check) => Promise.all(stores.map((store) => run('peek', store, check)));
const reset = (body: object, token?: string) =>
  admin.call('/counters/reset', { method: 'POST', body, token });

test('a reset forgets all counters of one subject in every region, and of no other subject', async () => {
  const rules = [
    await createRule('user'),
    await createRule('user', 'sliding-window-log'),
    await createRule('user', 'gcra'),
  ];
  for (const { checkOf } of rules)
    for (const id of ['u1', 'u2']) await takeEverywhere(await checkOf('user', id));

  const response = await reset({ scope: 'user', subject: 'u1' });
  expect(response.status).toBe(200);
  expect(await response.json()).toEqual({
    scope: 'user',
    subject: 'u1',
    regions: [
      { name: 'eu', reset: true },
      { name: 'us', reset: true },
    ],
    warnings: [],
  });
  for (const { checkOf } of rules) {
    expect(await leftEverywhere(await checkOf('user', 'u1'))).toEqual([10, 10]);
    expect(await leftEverywhere(await checkOf('user', 'u2'))).toEqual([9, 9]);
  }
});

test.each(['sliding-window-log', 'fixed-window'] as const)(
  'a reset covers the counters of every route and method: %s',
  async (algorithm) => {
    const routeOf = (resource: string) => `_${hash(slotOf(resource)).toString(36)}`;
    const two = { resource: undefined, resources: ['/a', '/b/*'] };
    for (const shape of [
      ...['_GET', '_OTHER'].map((variant) => ({ per: ['method'], variant })),
      ...two.resources.map((resource) => ({ ...two, per: ['route'], variant: routeOf(resource) })),
      ...two.resources.flatMap((resource) =>
        ['_GET', '_OTHER'].map((method) => ({
          ...two,
          per: ['route', 'method'],
          variant: `${routeOf(resource)}${method}`,
        })),
      ),
    ]) {
      const { checkOf } = await createRule('user', algorithm, shape);
      await takeEverywhere(await checkOf('user', 'u1'));
      await reset({ scope: 'user', subject: 'u1' });
      expect(await leftEverywhere(await checkOf('user', 'u1'))).toEqual([10, 10]);
    }
  },
);

test('a reset covers counters by several parts if the call names all parts, and warns if not', async () => {
  const by = { by: ['user', 'header:X-Model'], name: 'by model' };
  const { checkOf } = await createRule('user', 'sliding-window-log', by);
  for (const parts of ['u1/large', 'u1/small', '@192.0.2.1/large'])
    await takeEverywhere(await checkOf('by', parts));
  const left = async (parts: string) => (await leftEverywhere(await checkOf('by', parts)))[0];

  expect(await (await reset({ scope: 'user', subject: 'u1' })).json()).toMatchObject({
    warnings: [expect.stringContaining('"by model" counts by user, header:X-Model')],
  });
  expect(await left('u1/large')).toBe(9);
  const values = { 'header:x-model': 'large' };
  expect(await (await reset({ scope: 'user', subject: 'u1', values })).json()).toMatchObject({
    warnings: [],
  });
  expect([await left('u1/large'), await left('u1/small')]).toEqual([10, 9]);
  await reset({ scope: 'ip', subject: '192.0.2.1', values });
  expect(await left('@192.0.2.1/large')).toBe(10);
  expect((await reset({ scope: 'user', subject: 'u1', values: { model: 'x' } })).status).toBe(400);
});

test('a reset covers the counters of rules that are far apart or switched off', async () => {
  await admin.db.database.execute(`insert into weir.rules (name, resource, scope, algorithm, "limit", window_seconds)
    select 'filler-' || i, '/f' || i, 'user', 'fixed-window', 1, 1 from generate_series(1, 200) i`);
  const rule = await createRule('user');
  await admin.db.database.execute('update weir.rules set enabled = false');
  const check = await rule.checkOf('user', 'u1');
  await takeEverywhere(check);
  await reset({ scope: 'user', subject: 'u1' });
  expect(await leftEverywhere(check)).toEqual([10, 10]);
});

test('a reset of an address also forgets what rules of other scopes counted against it', async () => {
  const rules = await Promise.all(
    ['ip', 'user', 'apiKey', 'tenant'].map((scope) => createRule(scope, 'sliding-window-log')),
  );
  for (const { checkOf } of rules) await takeEverywhere(await checkOf('ip', '2001:db8:1:2::/64'));
  const response = await reset({ scope: 'ip', subject: '2001:db8:1:2:3::4' });
  expect(await response.json()).toMatchObject({ subject: '2001:db8:1:2::/64' });
  for (const { checkOf } of rules)
    expect(await leftEverywhere(await checkOf('ip', '2001:db8:1:2::/64'))).toEqual([10, 10]);
});

test('a reset of a key takes its id in upper case, too', async () => {
  const id = '9abba9bf-d616-491a-bc39-683ad6e48c45';
  const { checkOf } = await createRule('apiKey');
  await takeEverywhere(await checkOf('apiKey', id));
  const response = await reset({ scope: 'apiKey', subject: id.toUpperCase() });
  expect(await response.json()).toMatchObject({ subject: id });
  expect(await leftEverywhere(await checkOf('apiKey', id))).toEqual([10, 10]);
});

test('a reset of the global scope needs no subject', async () => {
  const rule = await createRule('global');
  const check = await rule.checkOf('global', 'all');
  await takeEverywhere(check);
  expect(await (await reset({ scope: 'global' })).json()).toMatchObject({ scope: 'global', subject: 'all' });
  expect(await leftEverywhere(check)).toEqual([10, 10]);
});

test('a reset reports for each region whether it was reset, and fails if none was', async () => {
  const rule = await createRule('user');
  const check = await rule.checkOf('user', 'u1');
  await takeEverywhere(check);
  harnesses[1]?.redis.freeze();
  const response = await reset({ scope: 'user', subject: 'u1' });
  expect(await response.json()).toMatchObject({
    regions: [
      { name: 'eu', reset: true },
      { name: 'us', reset: false },
    ],
  });
  harnesses[0]?.redis.freeze();
  const failed = await reset({ scope: 'user', subject: 'u1' });
  expect(failed.status).toBe(503);
  expect(await failed.json()).toMatchObject({ code: 'counters-unavailable' });
  for (const { redis } of harnesses) redis.thaw();
});

test.each<[object, string]>([
  [{ scope: 'user' }, '#/subject'],
  [{ subject: 'u1' }, '#/scope'],
  [{ scope: 'planet', subject: 'u1' }, '#/scope'],
  [{ scope: 'user', subject: '' }, '#/subject'],
])('a reset refuses %j', async (body, pointer) => {
  const response = await reset(body);
  expect(response.status).toBe(400);
  expect(await response.json()).toMatchObject({ code: 'invalid-body', errors: [{ pointer }] });
});

test('a reset is refused to a token that may only read', async () => {
  expect((await reset({ scope: 'user', subject: 'u1' }, TOKENS.read.token)).status).toBe(403);
});
