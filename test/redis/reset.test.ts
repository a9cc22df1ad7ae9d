import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { IDLE_MS } from '../../src/core/counting/transfer.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { createCheck } from './engines.ts';
import { startUpstash, type Upstash } from './lua-engine.ts';

let upstash: Upstash;
let client: Client;
let store: CounterStore;
beforeAll(async () => {
  upstash = await startUpstash('reset');
  client = createClient({ url: upstash.gateway.url, token: 'token' });
  store = createUpstashStore(client);
});
afterAll(() => upstash.stop());

const signal = () => AbortSignal.timeout(5_000);
const exist = (...keys: string[]) => client.command(signal(), ['EXISTS', ...keys]);
const rule = { algorithm: 'fixed-window', limit: 5, windowMs: 3_600_000 } as const;
const transfer = { owner: 'eu', termMs: 60_000, holdMs: 60_000 };

describe('a reset', () => {
  it('forgets counters and keeps records of transfers', async () => {
    const check = createCheck(rule);
    const transferred = { ...check, id: 'transferred', transfer };
    await store.transfer({ checks: [transferred] }, signal());
    await store.take({ checks: [check] }, signal());
    await store.reset([check.key], signal());
    const { outcomes } = await store.peek({ checks: [check, transferred] }, signal());
    expect(outcomes).toMatchObject([{ remaining: 5 }, { transferredTo: { name: 'eu' } }]);
  });

  it('keeps a transfer until its end, also if the key has lost its TTL', async () => {
    const check = createCheck(rule);
    const transferred = { ...check, id: 'transferred', transfer };
    const [answer] = (await store.transfer({ checks: [transferred] }, signal())).outcomes;
    await store.take({ checks: [check] }, signal());
    await client.command(signal(), ['PERSIST', check.key]);
    await store.reset([check.key], signal());
    const untilMs = answer?.kind === 'transferred' ? answer.untilMs : Number.NaN;
    const value = String(await client.command(signal(), ['GET', check.key]));
    expect(value).toMatch(new RegExp(`^00${untilMs + IDLE_MS} weir3;transferred:m${untilMs} \\d+ eu;$`));
    expect(await client.command(signal(), ['PEXPIRETIME', check.key])).toBe(untilMs + IDLE_MS);
  });

  it('leaves nothing of a key that holds only counters, and accepts a key that does not exist', async () => {
    const check = createCheck(rule);
    await store.take({ checks: [check] }, signal());
    expect(await exist(check.key)).toBe(1);
    await store.reset([check.key, `${check.key}:none`], signal());
    expect(await exist(check.key, `${check.key}:none`)).toBe(0);
    const { outcomes } = await store.peek({ checks: [check] }, signal());
    expect(outcomes).toMatchObject([{ remaining: 5 }]);
  });

  it.each<[string, (key: string) => readonly string[]]>([
    ['a text', (key) => ['SET', key, 'not of Weir']],
    ['a text with the letters of a transfer', (key) => ['SET', key, ';transferred:m1 eu']],
    ['a list', (key) => ['RPUSH', key, 'x']],
    ['a hash', (key) => ['HSET', key, 'a', 'b']],
  ])('leaves nothing of a key with a foreign value: %s', async (_, write) => {
    const check = createCheck(rule);
    await client.command(signal(), write(check.key));
    await store.reset([check.key], signal());
    expect(await exist(check.key)).toBe(0);
    const { outcomes } = await store.take({ checks: [check] }, signal());
    expect(outcomes).toMatchObject([{ allowed: true, remaining: 4 }]);
  });
});
