// The announcement of a region: who reads it, and what a take does when it is not the expected one.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type RedisServer, startRedisServer } from '../../local/redis-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';
import { type AnnouncementBoard, formatAnnouncement } from '../../src/core/announcement.ts';
import type { CounterStore } from '../../src/core/counter-store.ts';
import { ANNOUNCEMENT_KEY, requestKey } from '../../src/core/keys.ts';
import { splitBySlot } from '../../src/limiter/slot-split.ts';
import { createAnnouncementBoard } from '../../src/redis/announcement-board.ts';
import { type Client, createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/upstash-store.ts';
import { createCheck } from './engines.ts';

const at = (sequence: number) => ({ sequence, rules: 'a'.repeat(16), callers: 'b'.repeat(16) });
const text = (sequence: number) => formatAnnouncement(at(sequence));
const signal = () => AbortSignal.timeout(5_000);

let server: RedisServer;
let gateway: UpstashGateway;
let client: Client;
let board: AnnouncementBoard;
let store: CounterStore;
beforeAll(async () => {
  server = await startRedisServer({ port: 0, name: 'announcement' });
  gateway = await startUpstashGateway({
    port: 0,
    token: 'token',
    redisUrl: server.url,
    name: 'announcement',
  });
  client = createClient({ url: gateway.url, token: 'token' });
  board = createAnnouncementBoard(client);
  store = createUpstashStore(client);
});
afterAll(async () => {
  await gateway.stop();
  await server.stop();
});
beforeEach(() => client.send(signal(), (redis) => redis.flushall()));

describe('an announcement', () => {
  it('is read as it was written, and is none before', async () => {
    expect(await board.read(signal())).toBeUndefined();
    await board.write(at(7), signal());
    expect(await board.read(signal())).toBe(text(7));
  });

  it('never replaces a newer one, also when their numbers have different lengths', async () => {
    for (const sequence of [10, 9, 100, 99]) await board.write(at(sequence), signal());
    expect(await board.read(signal())).toBe(text(100));
  });

  it('replaces what is not an announcement, and expires', async () => {
    await client.send(signal(), (redis) => redis.set(ANNOUNCEMENT_KEY, 'what is this'));
    await board.write(at(1), signal());
    expect(await board.read(signal())).toBe(text(1));
    expect(await client.send(signal(), (redis) => redis.pttl(ANNOUNCEMENT_KEY))).toBeGreaterThan(
      2 * 86_400_000,
    );
  });
});

describe.each([
  ['in one call', () => store],
  ['on a cluster', () => splitBySlot(store, board)],
])('a take that expects an announcement, %s', (_, storeOf) => {
  const check = createCheck({ algorithm: 'fixed-window', limit: 3, windowMs: 3_600_000 });
  const take = (expects: string) => storeOf().run({ operation: 'take', checks: [check], expects }, signal());
  const peek = async () => (await store.run({ operation: 'peek', checks: [check] }, signal())).outcomes[0];

  it('goes on if it stands there, or if none does', async () => {
    expect((await take(text(1))).outcomes[0]).toMatchObject({ allowed: true, remaining: 2 });
    await board.write(at(1), signal());
    expect((await take(text(1))).outcomes[0]).toMatchObject({ allowed: true, remaining: 1 });
  });

  it('charges nothing and tells the news if another one does', async () => {
    await board.write(at(2), signal());
    expect(await take(text(1))).toMatchObject({ outcomes: [], news: text(2) });
    expect(await peek()).toMatchObject({ remaining: 3 });
  });
});

describe('asking for it in a take', () => {
  it('costs no command more, with one subject, several, and a request id', async () => {
    const checks = ['a', 'b'].map((subject) =>
      createCheck({ key: `weir:{ip:=${subject}}`, algorithm: 'gcra', limit: 3, windowMs: 3_600_000 }),
    );
    await board.write(at(1), signal());
    const billedFor = async (expects: string | undefined, count: number, id?: string) => {
      const { billed: before } = await gateway.stats();
      const remembered = id && (await requestKey(checks[0]?.key ?? '', id));
      const call = {
        operation: 'take',
        checks: checks.slice(0, count),
        expects,
        requestKey: remembered,
      } as const;
      const answer = await store.run(call, signal());
      expect(answer.outcomes).toHaveLength(count);
      return (await gateway.stats()).billed - before;
    };
    await billedFor(undefined, 1);
    expect(await billedFor(text(1), 1)).toBe(await billedFor(undefined, 1));
    expect(await billedFor(text(1), 2)).toBe(await billedFor(undefined, 2));
    expect(await billedFor(text(1), 1, 'x')).toBe(await billedFor(undefined, 1, 'y'));
  });
});
