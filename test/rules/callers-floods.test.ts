// Many unknown keys and users at once: look-ups in Postgres are bounded, and known callers keep theirs.
import { describe, expect, it } from 'vitest';
import type { Kv } from '../../src/rules/book/kv.ts';
import { users } from '../../src/rules/tables/schema.ts';
import { madeUpKey, useCallers } from './callers-harness.ts';

const { wire, issueKey, addUser, openIsolate, database } = useCallers();

describe('a flood of made-up keys', () => {
  const madeUp = (count: number) => Promise.all(Array.from({ length: count }, madeUpKey));

  it('from many addresses asks Postgres 20 times a second, writes nothing, and does not affect users', async () => {
    const isolate = openIsolate();
    const [known, userId] = [await issueKey({ tier: 'gold' }), await addUser({ tier: 'gold' })];
    const keys = await madeUp(60);
    for (const [i, key] of keys.entries())
      expect(await isolate.ofApiKey(key)).toBe(i < 20 ? undefined : null);
    expect(wire.bodies).toHaveLength(20);
    expect(await isolate.ofUser(userId)).toMatchObject({ tier: 'gold' });
    expect(await isolate.ofApiKey(known.key)).toBeNull();

    isolate.clock.ms += 1_000;
    expect(await isolate.ofApiKey(known.key)).toMatchObject({ tier: 'gold' });
    for (const key of keys) await isolate.ofApiKey(key);
    await isolate.settle();
    expect(wire.bodies).toHaveLength(20 + 1 + 20);
    expect(isolate.writes).toHaveLength(2);
  });

  it('from one address asks 5 times a second, and does not affect others', async () => {
    const isolate = openIsolate();
    const known = await issueKey({ tier: 'gold' });
    for (let second = 0; second < 2; second += 1) {
      for (const [i, key] of (await madeUp(30)).entries())
        expect(await isolate.ofApiKey(key, { ip: '192.0.2.1' })).toBe(i < 5 ? undefined : null);
      isolate.clock.ms += 1_000;
    }
    expect(wire.bodies).toHaveLength(10);
    for (const key of await madeUp(30)) await isolate.ofApiKey(key, { ip: '192.0.2.1' });
    expect(await isolate.ofApiKey(known.key)).toMatchObject({ tier: 'gold' });
    await isolate.settle();
  });

  it('does not prevent a look-up of a caller that was found lately', async () => {
    const isolate = openIsolate();
    const [known, forgotten] = [await issueKey({ tier: 'gold' }), await issueKey({ tier: 'gold' })];
    await isolate.ofApiKey(known.key);
    isolate.clock.ms += 30 * 60_000;
    isolate.news.epoch = crypto.randomUUID();
    for (const key of await madeUp(20)) await isolate.ofApiKey(key);
    expect(await isolate.ofApiKey(forgotten.key)).toBeNull();
    for (const ip of ['192.0.2.1', '192.0.2.2'])
      expect(await isolate.ofApiKey(known.key, { ip })).toMatchObject({ tier: 'gold' });
    isolate.clock.ms += 60 * 60_000;
    isolate.news.epoch = crypto.randomUUID();
    for (const key of await madeUp(20)) await isolate.ofApiKey(key);
    expect(await isolate.ofApiKey(known.key)).toBeNull();
    await isolate.settle();
  });

  it('asks nothing if only memory may be read, where remembered callers are still found', async () => {
    const isolate = openIsolate();
    const known = await issueKey({ tier: 'gold' });
    const spared = { memoryOnly: true };
    expect(await isolate.ofApiKey(known.key, spared)).toBeNull();
    expect([isolate.reads, wire.bodies, isolate.errors]).toEqual([[], [], []]);
    expect(await isolate.ofApiKey(known.key)).toMatchObject({ tier: 'gold' });
    expect(await isolate.ofApiKey(known.key, spared)).toMatchObject({ tier: 'gold' });
    await isolate.settle();
  });

  it('from more addresses than an isolate remembers is still bounded', async () => {
    const nobody: Kv = { get: async () => null, put: async () => {} };
    const isolate = openIsolate({ store: nobody });
    const key = await madeUpKey();
    for (let i = 0; i < 10_100; i += 1) {
      isolate.news.epoch = String(i);
      await isolate.ofApiKey(key, { ip: `address-${i}` });
    }
    expect(wire.bodies).toHaveLength(20);
    await isolate.settle();
  });
});

describe('many users without a row', () => {
  it('are remembered in KV, so that other isolates do not ask Postgres', async () => {
    const epoch = crypto.randomUUID();
    const [first, second] = [openIsolate({ epoch }), openIsolate({ epoch })];
    const crowd = Array.from({ length: 20 }, () => `nobody-${crypto.randomUUID()}`);
    for (const id of crowd) expect(await first.ofUser(id)).toBeUndefined();
    await first.settle();
    expect([wire.bodies.length, first.writes.length]).toEqual([20, 20]);

    const userId = await addUser({ tier: 'gold' });
    for (const id of crowd) expect(await second.ofUser(id)).toBeUndefined();
    expect(wire.bodies).toEqual([]);
    expect(await second.ofUser(userId)).toMatchObject({ tier: 'gold' });
    await second.settle();
    expect([...first.errors, ...second.errors]).toEqual([]);
  });

  it('are known at once when they get a row, by its revision', async () => {
    const isolate = openIsolate();
    const id = `user-${crypto.randomUUID()}`;
    await isolate.ofUser(id);
    await isolate.settle();
    await database().insert(users).values({ id, tier: 'gold' });
    isolate.revisions.set(`user:${id}`, '1');
    expect(await isolate.ofUser(id)).toMatchObject({ tier: 'gold' });
    await isolate.settle();
  });
});
