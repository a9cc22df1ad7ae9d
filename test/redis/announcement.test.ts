// The announcement of a region: reading it alone, and along with a take.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { ANNOUNCEMENT_KEY } from '../../src/core/counting/keys.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { formatAnnouncement, type RulesPointer } from '../../src/core/ports/region.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createUpstashStore, splitByHashSlot } from '../../src/redis/counter-store.ts';
import { createRulesPointer } from '../../src/redis/region-keys.ts';
import { createCheck } from './engines.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

const at = (sequence: number) => ({ sequence, rules: 'a'.repeat(16), callers: 'b'.repeat(16) });
const text = (sequence: number) => formatAnnouncement(at(sequence));
const signal = () => AbortSignal.timeout(5_000);

let upstash: Upstash;
let gateway: UpstashGateway;
let client: Client;
let pointer: RulesPointer;
let store: CounterStore;
beforeAll(async () => {
  upstash = await startUpstash('announcement');
  gateway = upstash.gateway;
  client = createClient({ url: gateway.url, token: 'token' });
  pointer = createRulesPointer(client);
  store = createUpstashStore(client);
});
afterAll(async () => {
  await upstash.stop();
});
beforeEach(() => client.send(signal(), (redis) => redis.flushall()));

describe('an announcement', () => {
  it('is missing at first, and is later read as it was written', async () => {
    expect(await pointer.read(signal())).toBeUndefined();
    await pointer.write(at(7), signal());
    expect(await pointer.read(signal())).toBe(text(7));
  });

  it('never replaces a newer one, even if their numbers have different lengths', async () => {
    for (const sequence of [10, 9, 100, 99]) await pointer.write(at(sequence), signal());
    expect(await pointer.read(signal())).toBe(text(100));
  });

  it('replaces a text that is no announcement, and expires', async () => {
    await client.send(signal(), (redis) => redis.set(ANNOUNCEMENT_KEY, 'what is this'));
    await pointer.write(at(1), signal());
    expect(await pointer.read(signal())).toBe(text(1));
    expect(await client.send(signal(), (redis) => redis.pttl(ANNOUNCEMENT_KEY))).toBeGreaterThan(
      2 * 86_400_000,
    );
  });
});

const check = createCheck({ algorithm: 'fixed-window', limit: 3, windowMs: 3_600_000 });
const take = (from = store, checks = [check]) => from.take({ checks, withAnnouncement: true }, signal());
const left = async () => (await store.peek({ checks: [check] }, signal())).outcomes[0]?.remaining;
/** Makes GET fail, while everything else works. */
const spoilAnnouncement = () =>
  client.send(signal(), async (redis) => {
    await redis.del(ANNOUNCEMENT_KEY);
    return redis.lpush(ANNOUNCEMENT_KEY, 'a list');
  });

describe.each([
  ['in one call', () => store],
  ['on a cluster', () => splitByHashSlot(store, pointer)],
])('a take with the announcement, %s', (_, storeOf) => {
  it('is charged, and reports that there is no announcement', async () => {
    expect(await take(storeOf())).toMatchObject({ announced: null, outcomes: [{ remaining: 2 }] });
  });

  it('is charged, and returns the announcement', async () => {
    for (const sequence of [1, 2]) {
      await pointer.write(at(sequence), signal());
      const outcomes = [{ allowed: true, remaining: 3 - sequence }];
      expect(await take(storeOf())).toMatchObject({ announced: text(sequence), outcomes });
    }
  });

  it('is charged even if the announcement cannot be read', async () => {
    await spoilAnnouncement();
    const answer = await take(storeOf());
    expect(answer).toMatchObject({ outcomes: [{ allowed: true, remaining: 2 }] });
    expect(answer.announced).toBeUndefined();
    expect(await left()).toBe(2);
  });
});

describe('a take with the announcement is one request', () => {
  const spent = async (work: () => Promise<unknown>) => {
    const before = await gateway.stats();
    await work();
    const after = await gateway.stats();
    return { requests: after.requests - before.requests, billed: after.billed - before.billed };
  };

  it('and costs one more command, with one subject and with several', async () => {
    const checks = ['a', 'b'].map((subject) =>
      createCheck({ key: `weir:{ip:=${subject}}`, algorithm: 'gcra', limit: 3, windowMs: 3_600_000 }),
    );
    await pointer.write(at(1), signal());
    const costOf = (withAnnouncement: boolean, count: number) =>
      spent(async () => {
        const call = { checks: checks.slice(0, count) };
        const answer = await store.take({ ...call, withAnnouncement }, signal());
        expect(answer.outcomes).toHaveLength(count);
      });
    await costOf(false, 1);
    for (const count of [1, 2]) {
      const plain = await costOf(false, count);
      expect(await costOf(true, count)).toEqual({ requests: 1, billed: plain.billed + 1 });
    }
  });

  it('and one more request if Redis has lost the script, whose text is then sent once', async () => {
    await pointer.write(at(1), signal());
    await take();
    await gateway.faults.flushScripts();
    // GET, the EVALSHA that fails, and EVAL with TIME, GET and SET.
    const cost = await spent(async () =>
      expect(await take()).toMatchObject({ announced: text(1), outcomes: [{ remaining: 1 }] }),
    );
    expect(cost).toEqual({ requests: 2, billed: 6 });
    expect(await left()).toBe(1);
  });

  it('and is charged if Redis has lost the script and cannot read the announcement', async () => {
    await spoilAnnouncement();
    await gateway.faults.flushScripts();
    expect(await take()).toMatchObject({ announced: undefined, outcomes: [{ remaining: 2 }] });
  });
});

describe('a take with the announcement fails', () => {
  const failureOf = (taken: Promise<unknown>) =>
    taken.then(
      () => expect.unreachable(),
      ({ name, failure, message }) => ({ name, failure, message }),
    );

  it('if only the script fails: nothing is charged, and the error shows nothing of the call', async () => {
    await pointer.write(at(1), signal());
    const { message, ...failure } = await failureOf(take(store, [{ ...check, limit: 0 }]));
    expect(failure).toEqual({ name: 'CounterStoreError', failure: 'script-failed' });
    expect(message).not.toContain(check.key);
    expect(await left()).toBe(3);
  });

  it('with the error of the script if both fail', async () => {
    await spoilAnnouncement();
    expect(await failureOf(take(store, [{ ...check, limit: 0 }]))).toMatchObject({
      failure: 'script-failed',
    });
  });

  it.each([{ status: 500 }, { status: 401 }, { garbage: true }, { wrongShape: true }, { refuse: true }])(
    'like a take without the announcement if the request fails: %j',
    async (fault) => {
      await gateway.faults.set(fault);
      const plain = await failureOf(store.take({ checks: [check] }, signal()));
      const asked = await failureOf(take());
      await gateway.faults.clear();
      expect(asked).toEqual(plain);
      expect(await left()).toBe(3);
    },
  );

  it('if there is no answer in time', async () => {
    await gateway.faults.set({ hang: true });
    const call = { checks: [check], withAnnouncement: true };
    const failed = await failureOf(store.take(call, AbortSignal.timeout(20)));
    await gateway.faults.clear();
    expect(failed).toMatchObject({ failure: 'timeout' });
  });

  it.each([
    '[]',
    '[{"result":null}]',
    '[{"result":null},{}]',
    '[{"result":null},{"result":null}]',
    '[null,null]',
    '[1,2]',
    '{"result":[1,2,3]}',
    '[{"result":null},{"result":[1,2,3]},{"result":null}]',
  ])('if the reply is not what Upstash sends: %s', async (body) => {
    vi.stubGlobal('fetch', async () => new Response(body));
    const failed = await failureOf(take());
    vi.unstubAllGlobals();
    expect(failed).toMatchObject({ name: 'CounterStoreError', failure: 'bad-reply' });
  });
});
