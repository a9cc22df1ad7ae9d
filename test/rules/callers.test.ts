// Who a caller is: found in memory, then in KV, then in Postgres, and looked up again after a change.
import { eq } from 'drizzle-orm';
import { describe, expect, it } from 'vitest';
import { ABSENT } from '../../src/core/ports/callers.ts';
import type { Kv } from '../../src/rules/edge/published.ts';
import { apiKeys, users } from '../../src/rules/tables/tables.ts';
import { found, madeUpKey, useCallers } from './callers-harness.ts';

const { wire, bringKey, issueKey, addUser, openIsolate, database, kv } = useCallers();

describe('a caller is looked up', () => {
  it('in Postgres once, then in memory, and in KV by the next isolate', async () => {
    const { key, hash, id } = await issueKey({ tier: 'gold' });
    const record = expect.objectContaining({ apiKeyId: id, tier: 'gold' });
    const epoch = crypto.randomUUID();
    const first = openIsolate({ epoch });
    expect(await first.ofApiKey(key)).toEqual(found(record));
    await first.settle();
    const name = `caller:${epoch}:key:${hash}`;
    expect([wire.bodies.length, first.reads, first.writes]).toEqual([1, [name], [name]]);
    expect(await first.ofApiKey(key)).toEqual(found(record));
    expect([wire.bodies.length, first.reads, first.writes]).toEqual([1, [name], [name]]);

    const second = openIsolate({ epoch });
    expect(await second.ofApiKey(key)).toEqual(found(record));
    expect(await second.ofApiKey(key)).toEqual(found(record));
    expect([wire.bodies.length, second.reads, second.writes]).toEqual([1, [name], []]);
    expect([...first.errors, ...second.errors]).toEqual([]);
  });

  it('in KV again a minute later; a record in KV lasts for ten minutes', async () => {
    const { key } = await issueKey({ tier: 'gold' });
    const isolate = openIsolate();
    await isolate.ofApiKey(key);
    await isolate.settle();
    isolate.clock.ms += 59_999;
    await isolate.ofApiKey(key);
    expect(isolate.reads).toHaveLength(1);
    isolate.clock.ms += 1;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    expect([isolate.reads.length, wire.bodies.length]).toEqual([2, 1]);

    const { keys } = await kv().list({ prefix: `caller:${isolate.news.epoch}:` });
    const leftSeconds = (keys[0]?.expiration ?? 0) - Date.now() / 1_000;
    expect(leftSeconds).toBeGreaterThan(500);
    expect(leftSeconds).toBeLessThanOrEqual(600);
  });

  it('by each of several requests that come at once', async () => {
    const { key, id } = await issueKey();
    const isolate = openIsolate();
    const records = await Promise.all([isolate.ofApiKey(key), isolate.ofApiKey(key), isolate.ofApiKey(key)]);
    expect(records).toMatchObject(Array(3).fill(found({ apiKeyId: id })));
    await isolate.settle();
  });

  it('in memory if it is one of the last 10,000', async () => {
    const everybody: Kv = {
      get: async (name) => JSON.stringify({ userId: name.slice(name.lastIndexOf(':') + 1) }),
      put: async () => {},
    };
    const isolate = openIsolate({ store: everybody });
    for (let i = 0; i <= 10_000; i++) await isolate.ofUser(`u${i}`);
    isolate.reads.length = 0;
    for (const id of ['u10000', 'u1', 'u0']) expect(await isolate.ofUser(id)).toEqual(found({ userId: id }));
    expect(isolate.reads.map((name) => name.split(':').at(-1))).toEqual(['u0']);
  });
});

describe('the tier', () => {
  it.each([
    [
      'is that of the key first',
      { key: ['gold', 'BRONZE'], user: ['silver', 'SILVER'], gives: ['gold', 'BRONZE'] },
    ],
    [
      'is that of the key’s user next',
      { key: [null, 'BRONZE'], user: ['gold', 'SILVER'], gives: ['gold', 'BRONZE'] },
    ],
    [
      'is that of the key’s tenant next',
      { key: [null, 'BRONZE'], user: [null, 'SILVER'], gives: ['bronze', 'BRONZE'] },
    ],
    [
      'is that of the user’s tenant next',
      { key: [null, null], user: [null, 'SILVER'], gives: ['silver', 'SILVER'] },
    ],
    [
      'is not that of the user’s tenant if the key has its own',
      { key: [null, 'PLAIN'], user: [null, 'SILVER'], gives: [undefined, 'PLAIN'] },
    ],
    [
      'is that of a user without a tenant',
      { key: [null, null], user: ['gold', null], gives: ['gold', undefined] },
    ],
    [
      'is the default if neither key, user nor tenant has one',
      { key: [null, null], user: [null, null], gives: [] },
    ],
  ])(
    '%s',
    async (_, { key: [keyTier, keyTenant], user: [userTier, userTenant], gives: [tier, tenantId] }) => {
      const userId = await addUser({ tier: userTier, tenantId: userTenant });
      const { key, id } = await issueKey({ tier: keyTier, tenantId: keyTenant, userId });
      const expected = { apiKeyId: id, userId, tenantId, tier, expiresAtMs: undefined };
      const isolate = openIsolate();
      expect(await isolate.ofApiKey(key)).toEqual(found(expected));
      await isolate.settle();
      expect(await openIsolate({ epoch: isolate.news.epoch }).ofApiKey(key)).toEqual(found(expected));
      expect(wire.bodies).toHaveLength(1);
    },
  );

  it.each([
    [null, 'silver'],
    ['gold', 'gold'],
  ])('of a key whose user has no row is its own, or that of its tenant: %s', async (own, tier) => {
    const { key, id } = await issueKey({ tier: own, tenantId: 'SILVER', userId: 'in no table' });
    const expected = { apiKeyId: id, userId: 'in no table', tenantId: 'SILVER', tier };
    expect(await openIsolate().ofApiKey(key)).toEqual(found(expected));
  });

  it.each([
    ['of a user is its own first', ['gold', 'SILVER'], 'gold', 'SILVER'],
    ['of a user is that of its tenant next', [null, 'SILVER'], 'silver', 'SILVER'],
    ['of a user with neither is the default', [null, null], undefined, undefined],
  ])('%s', async (_, [userTier, userTenant], tier, tenantId) => {
    const userId = await addUser({ tier: userTier, tenantId: userTenant });
    const isolate = openIsolate();
    expect(await isolate.ofUser(userId)).toEqual(found({ userId, tier, tenantId }));
    await isolate.settle();
    expect(await isolate.ofUser(userId)).toEqual(found({ userId, tier, tenantId }));
    expect([wire.bodies.length, isolate.writes]).toEqual([
      1,
      [`caller:${isolate.news.epoch}:user:${userId}`],
    ]);
  });
});

describe('a key that was made elsewhere', () => {
  it('is looked up by its hash, unless Weir has made all keys that there are', async () => {
    const { key, hash } = await bringKey({ tier: 'gold' });
    const isolate = openIsolate();
    expect(await isolate.ofApiKey(key)).toEqual(ABSENT);
    expect([wire.bodies, isolate.reads]).toEqual([[], []]);
    isolate.news.onlyWeirKeys = false;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    expect(isolate.reads).toEqual([`caller:${isolate.news.epoch}:key:${hash}`]);
    expect(wire.bodies.join()).not.toContain(key);
    await isolate.settle();
  });

  it('has 8 to 8,192 printable characters, without blanks and commas: nothing else is asked for', async () => {
    const isolate = openIsolate();
    isolate.news.onlyWeirKeys = false;
    const key = 'x'.repeat(8);
    for (const wrong of [
      '',
      key.slice(1),
      'x'.repeat(8_193),
      `${key} ${key}`,
      `${key},${key}`,
      `${key}é`,
      `${key}\0`,
    ])
      expect(await isolate.ofApiKey(wrong)).toEqual(ABSENT);
    expect([wire.bodies, isolate.reads]).toEqual([[], []]);
    for (const possible of [key, '~!@#$%^&*()_+{}|:"<>?`-=[];./', 'x'.repeat(8_192)])
      expect(await isolate.ofApiKey(possible)).toEqual(ABSENT);
    expect(isolate.reads).toHaveLength(3);
  });
});

describe('no caller is found', () => {
  it('for a malformed key, and nothing is asked', async () => {
    const { key } = await issueKey();
    const isolate = openIsolate();
    for (const wrong of ['', 'secret', `${key.slice(0, -1)}${key.endsWith('x') ? 'y' : 'x'}`, `${key} `])
      expect(await isolate.ofApiKey(wrong)).toEqual(ABSENT);
    expect([wire.bodies, isolate.reads]).toEqual([[], []]);
  });

  it('for an id that no user can have, and nothing is asked', async () => {
    const isolate = openIsolate();
    for (const id of ['', 'a\0b', '\ud800', 'x'.repeat(513)])
      expect(await isolate.ofUser(id)).toEqual(ABSENT);
    expect([wire.bodies, isolate.reads, isolate.errors]).toEqual([[], [], []]);
  });

  it('for a made-up key, which is looked up once a minute and never written to KV', async () => {
    const key = await madeUpKey();
    const isolate = openIsolate();
    for (let i = 0; i < 3; i++) expect(await isolate.ofApiKey(key)).toEqual(ABSENT);
    await isolate.settle();
    isolate.clock.ms += 59_999;
    await isolate.ofApiKey(key);
    expect([wire.bodies.length, isolate.reads.length, isolate.writes]).toEqual([1, 1, []]);
    isolate.clock.ms += 1;
    await isolate.ofApiKey(key);
    await isolate.settle();
    expect([wire.bodies.length, isolate.reads.length, isolate.writes]).toEqual([2, 2, []]);
    expect(isolate.errors).toEqual([]);
  });

  it('for a disabled key', async () => {
    const { key } = await issueKey({ disabled: true, tier: 'gold' });
    const isolate = openIsolate();
    expect(await isolate.ofApiKey(key)).toEqual(ABSENT);
    await isolate.settle();
    expect(isolate.writes).toEqual([]);
  });

  it('for a key from the millisecond of its expiry, in memory, KV and Postgres', async () => {
    const epoch = crypto.randomUUID();
    const [isolate, another] = [openIsolate({ epoch }), openIsolate({ epoch })];
    const expiresAtMs = isolate.clock.ms + 1_000;
    const { key } = await issueKey({ expiresAt: new Date(expiresAtMs) });
    isolate.clock.ms = expiresAtMs - 1;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ expiresAtMs }));
    await isolate.settle();
    for (const each of [isolate, another]) {
      each.clock.ms = expiresAtMs;
      expect(await each.ofApiKey(key)).toEqual(ABSENT);
    }
    const unaware = openIsolate();
    unaware.clock.ms = expiresAtMs;
    expect(await unaware.ofApiKey(key)).toEqual(ABSENT);
    expect(wire.bodies).toHaveLength(2);
  });
});

describe('a caller that has changed', () => {
  it('is looked up again at once by every isolate that knows of the change', async () => {
    const { key, hash, id = '' } = await issueKey({ tier: 'bronze' });
    const epoch = crypto.randomUUID();
    const isolates = [openIsolate({ epoch }), openIsolate({ epoch })];
    const [first, second] = isolates;
    const tierSeen = async () => {
      const records = [];
      for (const isolate of isolates) {
        const answer = await isolate.ofApiKey(key);
        records.push(answer.kind === 'found' ? answer.record.tier : answer.kind);
        await isolate.settle();
      }
      return records;
    };
    expect(await tierSeen()).toEqual(['bronze', 'bronze']);

    await database().update(apiKeys).set({ tier: 'gold' }).where(eq(apiKeys.id, id));
    expect(await tierSeen()).toEqual(['bronze', 'bronze']);
    first?.revisions.set(`key:${hash}`, '7');
    expect(await tierSeen()).toEqual(['gold', 'bronze']);
    second?.revisions.set(`key:${hash}`, '7');
    expect(await tierSeen()).toEqual(['gold', 'gold']);
    expect(second?.writes).toEqual([]);
    expect(second?.reads.at(-1)).toBe(`caller:${epoch}:key:${hash}:7`);

    await database().update(apiKeys).set({ disabled: true }).where(eq(apiKeys.id, id));
    for (const isolate of isolates) isolate.revisions.set(`key:${hash}`, '8');
    expect(await tierSeen()).toEqual(['absent', 'absent']);
  });

  it('is looked up again in a new epoch, even if it did not exist before', async () => {
    const isolate = openIsolate();
    const userId = `user-${crypto.randomUUID()}`;
    expect(await isolate.ofUser(userId)).toEqual(ABSENT);
    await database().insert(users).values({ id: userId, tier: 'gold' });
    expect(await isolate.ofUser(userId)).toEqual(ABSENT);
    isolate.news.epoch = crypto.randomUUID();
    expect(await isolate.ofUser(userId)).toMatchObject(found({ tier: 'gold' }));
    await isolate.settle();
  });

  it('is not confused with one whose id looks like a revision, and every id fits into KV', async () => {
    const isolate = openIsolate();
    isolate.revisions.set('user:a', '7');
    for (const id of ['a', 'a:7', 'a/b', '💧'.repeat(256), 'x'.repeat(512), '#a']) await isolate.ofUser(id);
    expect(new Set(isolate.reads).size).toBe(6);
    for (const name of isolate.reads) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(512);
    expect(isolate.errors).toEqual([]);
  });
});
