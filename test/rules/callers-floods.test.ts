// Many unknown keys and users at once: look-ups in Postgres are bounded, and known callers keep theirs.
import { describe, expect, it } from 'vitest';
import { ABSENT, NOT_ASKED } from '../../src/core/ports/callers.ts';
import { users } from '../../src/rules/tables/tables.ts';
import { found, madeUpKey, useCallers } from './callers-harness.ts';

const { wire, issueKey, addUser, openIsolate, database } = useCallers();

const OVER = { kind: 'over-allowance', retryAfterMs: 1_000 };
const madeUp = (count: number) => Promise.all(Array.from({ length: count }, madeUpKey));

describe('an address that makes up keys', () => {
  it('has 5 of them looked up in a second, and is then over its allowance until the second ends', async () => {
    const isolate = openIsolate();
    const known = await issueKey({ tier: 'gold' });
    const ip = '192.0.2.1';
    for (let second = 0; second < 2; second += 1) {
      for (const [i, key] of (await madeUp(8)).entries())
        expect(await isolate.ofApiKey(key, { ip })).toEqual(i < 5 ? ABSENT : OVER);
      expect(await isolate.ofApiKey(known.key, { ip })).toEqual(OVER);
      isolate.clock.ms += 1_000;
    }
    expect([wire.bodies.length, isolate.writes]).toEqual([10, []]);
    expect(await isolate.ofApiKey(known.key, { ip })).toMatchObject(found({ tier: 'gold' }));
    await isolate.settle();
  });

  it('does not affect other addresses', async () => {
    const isolate = openIsolate();
    const known = await issueKey({ tier: 'gold' });
    for (const key of await madeUp(10)) await isolate.ofApiKey(key, { ip: '192.0.2.1' });
    expect(await isolate.ofApiKey(known.key)).toMatchObject(found({ tier: 'gold' }));
    await isolate.settle();
  });

  it('has all its real keys looked up, because each gives its look-up back', async () => {
    const isolate = openIsolate();
    const ip = '192.0.2.1';
    await isolate.ofApiKey(await madeUpKey(), { ip });
    for (let i = 0; i < 25; i += 1) {
      const { key } = await issueKey({ tier: 'gold' });
      expect(await isolate.ofApiKey(key, { ip })).toMatchObject(found({ tier: 'gold' }));
    }
    await isolate.settle();
  });
});

it('only memory is read if only memory may be asked, where remembered callers are still found', async () => {
  const isolate = openIsolate();
  const known = await issueKey({ tier: 'gold' });
  const spared = { memoryOnly: true };
  expect(await isolate.ofApiKey(known.key, spared)).toEqual(NOT_ASKED);
  expect(await isolate.ofUser('anybody', spared)).toEqual(NOT_ASKED);
  expect([isolate.reads, wire.bodies, isolate.errors]).toEqual([[], [], []]);
  expect(await isolate.ofApiKey(known.key)).toMatchObject(found({ tier: 'gold' }));
  expect(await isolate.ofApiKey(known.key, spared)).toMatchObject(found({ tier: 'gold' }));
  await isolate.settle();
});

describe('many users without a row', () => {
  it('are remembered in KV, so that other isolates do not ask Postgres', async () => {
    const epoch = crypto.randomUUID();
    const [first, second] = [openIsolate({ epoch }), openIsolate({ epoch })];
    const crowd = Array.from({ length: 20 }, () => `nobody-${crypto.randomUUID()}`);
    for (const id of crowd) expect(await first.ofUser(id)).toEqual(ABSENT);
    await first.settle();
    expect([wire.bodies.length, first.writes.length]).toEqual([20, 20]);

    const userId = await addUser({ tier: 'gold' });
    for (const id of crowd) expect(await second.ofUser(id)).toEqual(ABSENT);
    expect(wire.bodies).toEqual([]);
    expect(await second.ofUser(userId)).toMatchObject(found({ tier: 'gold' }));
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
    expect(await isolate.ofUser(id)).toMatchObject(found({ tier: 'gold' }));
    await isolate.settle();
  });
});
