// Looking up callers while KV or Postgres fails, hangs or answers late: at worst the caller is unknown.
import { describe, expect, it } from 'vitest';
import { UNAVAILABLE } from '../../src/core/ports/callers.ts';
import { withDeadline } from '../../src/rules/edge/published.ts';
import { fails, found, hangs, useCallers } from './callers-harness.ts';

/** Whether the work is still pending after everything that needs no waiting is done. */
const isPending = (work: Promise<unknown>) =>
  Promise.race([
    work.then(() => false),
    new Promise<boolean>((resolve) => setImmediate(() => resolve(true))),
  ]);

const { wire, issueKey, addUser, openIsolate, kv, stopPostgres } = useCallers();

describe('when KV', () => {
  it.each([
    ['is garbled', '{"apiKeyId":'],
    ['has something else', '[]'],
    ['has a record without a key', '{"tier":"gold"}'],
    ['has a tier that is not a name', '{"apiKeyId":"x","tier":7}'],
  ])('%s, Postgres is asked and the record replaced', async (_, text) => {
    const { key, hash, id } = await issueKey({ tier: 'silver' });
    const isolate = openIsolate();
    const name = `caller:${isolate.news.epoch}:key:${hash}`;
    await kv().put(name, text);
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ apiKeyId: id, tier: 'silver' }));
    await isolate.settle();
    expect(JSON.parse((await kv().get(name)) ?? '')).toEqual({ apiKeyId: id, tier: 'silver' });
    expect(isolate.errors).toHaveLength(1);
  });

  it('fails, Postgres is asked, and the answer is remembered', async () => {
    const { key } = await issueKey({ tier: 'silver' });
    const isolate = openIsolate();
    isolate.faults.set('get', fails).set('put', fails);
    for (let i = 0; i < 3; i++) expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'silver' }));
    await isolate.settle();
    expect([isolate.errors.length, wire.bodies.length]).toEqual([2, 1]);
  });

  it('hangs, Weir still asks Postgres', async () => {
    const { key } = await issueKey({ tier: 'silver' });
    const isolate = openIsolate({ deadlineMs: 4_000 });
    isolate.faults.set('get', hangs);
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'silver' }));
    expect(isolate.errors).toMatchObject([{ name: 'TimeoutError' }]);
    await isolate.settle();
  });
});

describe('when Postgres', () => {
  it('fails, callers have the default tier, and Postgres is not asked for two seconds', async () => {
    const [{ key }, userId] = [await issueKey({ tier: 'gold' }), await addUser({ tier: 'gold' })];
    const isolate = openIsolate();
    wire.deliver = fails;
    expect(await isolate.ofApiKey(key)).toEqual(UNAVAILABLE);
    isolate.clock.ms += 1_999;
    expect(await isolate.ofApiKey(key)).toEqual(UNAVAILABLE);
    expect(isolate.reads).toHaveLength(1);
    expect(await isolate.ofUser(userId)).toEqual(UNAVAILABLE);
    await isolate.settle();
    expect([wire.bodies.length, isolate.errors.length, isolate.writes]).toEqual([1, 1, []]);

    wire.deliver = undefined;
    isolate.clock.ms += 1;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    expect(await isolate.ofUser(userId)).toMatchObject(found({ tier: 'gold' }));
  });

  it('fails, callers in KV keep their tier', async () => {
    const { key } = await issueKey({ tier: 'gold' });
    const isolate = openIsolate();
    await isolate.ofApiKey(key);
    await isolate.settle();
    wire.deliver = fails;
    isolate.clock.ms += 60_000;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
  });

  it('hangs, no request waits beyond the deadline, and only the first waits at all', async () => {
    const [{ key }, userId] = [await issueKey(), await addUser()];
    const isolate = openIsolate({ deadlineMs: 1_000 });
    wire.deliver = hangs;
    expect(await isolate.ofApiKey(key)).toEqual(UNAVAILABLE);
    expect(isolate.errors).toMatchObject([{ name: 'TimeoutError' }]);
    expect(await isolate.ofUser(userId)).toEqual(UNAVAILABLE);
    expect(wire.bodies).toHaveLength(1);
  });

  it('fails for one of two requests, the answer of the other one holds', async () => {
    const { key } = await issueKey({ tier: 'gold' });
    const isolate = openIsolate();
    const { promise, reject } = Promise.withResolvers<void>();
    wire.deliver = () => (wire.bodies.length === 1 ? promise : Promise.resolve());
    const failing = isolate.ofApiKey(key);
    await expect.poll(() => wire.bodies).toHaveLength(1);
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    reject(new Error('down'));
    expect(await failing).toEqual(UNAVAILABLE);
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    await isolate.settle();
  });

  it('answers late, the next request has the answer, and Postgres may be asked again', async () => {
    const [{ key }, userId] = [await issueKey({ tier: 'gold' }), await addUser({ tier: 'silver' })];
    const isolate = openIsolate({ deadlineMs: 3_000 });
    const { promise, resolve } = Promise.withResolvers<void>();
    wire.deliver = () => promise;
    expect(await isolate.ofApiKey(key)).toEqual(UNAVAILABLE);
    const settled = isolate.settle();
    expect(await isPending(settled)).toBe(true);
    resolve();
    await settled;
    expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
    expect([wire.bodies.length, isolate.writes.length]).toEqual([1, 1]);
    expect(await isolate.ofUser(userId)).toMatchObject(found({ tier: 'silver' }));
    await isolate.settle();
  });
});

it('a caller that is found is written to KV after the response, through waitUntil', async () => {
  const { key } = await issueKey({ tier: 'gold' });
  const isolate = openIsolate();
  const { promise, reject } = Promise.withResolvers<never>();
  isolate.faults.set('put', () => promise);
  expect(await isolate.ofApiKey(key)).toMatchObject(found({ tier: 'gold' }));
  await expect.poll(() => isolate.writes).toHaveLength(1);
  const settled = isolate.settle();
  expect(await isPending(settled)).toBe(true);
  reject(new Error('down'));
  await settled;
  expect(isolate.errors).toHaveLength(1);
});

it('the text of a key never reaches Postgres, KV or an error', async () => {
  const { key, hash } = await issueKey();
  const isolate = openIsolate();
  isolate.revisions.set(`key:${hash}`, '1');
  isolate.faults.set('get', fails).set('put', fails);
  await isolate.ofApiKey(key);
  await isolate.settle();
  wire.deliver = fails;
  isolate.news.epoch = crypto.randomUUID();
  await isolate.ofApiKey(key);
  const causes = isolate.errors.map((error) =>
    error instanceof Error ? [String(error), String(error.cause)] : [],
  );
  const told = JSON.stringify([wire.bodies, isolate.reads, isolate.writes, causes]);
  expect(isolate.errors).toHaveLength(4);
  expect(told).toContain(hash);
  expect(told).not.toContain(key.slice(5, 20));
});

it('a call does not wait if the deadline is already past', async () => {
  await expect(withDeadline(AbortSignal.abort(new Error('late')), hangs())).rejects.toThrow('late');
});

// The last test, because Postgres does not come back.
it('while Postgres is down, callers are unknown and the error is reported', async () => {
  const { key } = await issueKey({ tier: 'gold' });
  await stopPostgres();
  const isolate = openIsolate();
  expect(await isolate.ofApiKey(key)).toEqual(UNAVAILABLE);
  await isolate.settle();
  expect(isolate.errors).toHaveLength(1);
});
