// What a decision may cost, as far as it can be counted exactly. `npm run bench -- engine` measures times.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BenchRedis, startBenchRedis } from '../../bench/engine/bench-redis.ts';
import { measureBytes } from '../../bench/engine/bytes.ts';
import { countCommands, measureCommands, rulesOf } from '../../bench/engine/commands.ts';
import { COUNTS, checksOf, type LoadedScript, loadInto, mixedRules } from '../../bench/engine/rules.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { createClient } from '../../src/redis/client.ts';
import { createUpstashStore } from '../../src/redis/counter-store.ts';
import { type Harness, startHarness, TOKEN } from '../local/upstash-gateway-harness.ts';

let redis: BenchRedis;
let script: LoadedScript;
beforeAll(async () => {
  redis = await startBenchRedis();
  script = await loadInto(redis);
});
afterAll(() => redis[Symbol.asyncDispose]());

describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
  it.each(COUNTS)('pays for one read, and one write per key, with %i rules of one subject', async (count) => {
    const rules = rulesOf(algorithm, count);
    const keys = new Set((await checksOf(rules, { subject: 'anyone' })).map(({ key }) => key)).size;
    const admitted = await countCommands(redis, script, rules, 'admitted');
    expect(Math.max(admitted.fresh, admitted.steady)).toBeLessThanOrEqual(3 + keys);
    const denied = await countCommands(redis, script, rules, 'denied');
    expect(Math.max(denied.fresh, denied.steady)).toBeLessThanOrEqual(3);
  });
});

describe('rules of several algorithms on one subject', () => {
  it('cost at most 4 commands when admitted and 3 when denied, however many they are', async () => {
    const { admitted, denied } = await measureCommands(redis, script);
    for (const count of COUNTS) {
      expect(admitted[count]).toBeLessThanOrEqual(4);
      expect(denied[count]).toBeLessThanOrEqual(3);
    }
  });

  it('take no more memory than the same three rules of @upstash/ratelimit', async () => {
    const { three, peerThree } = await measureBytes(redis, script);
    expect(three).toBeLessThanOrEqual(peerThree);
  });
});

it('the bench weighs the counters of every algorithm before they expire', async () => {
  expect(Object.values(await measureBytes(redis, script))).not.toContain(0);
});

describe('a call of the store with five rules of one subject', () => {
  let harness: Harness;
  let store: CounterStore;
  beforeAll(async () => {
    harness = await startHarness();
    store = createUpstashStore(createClient({ url: harness.gateway.url, token: TOKEN }));
    // Redis does not know the script before its first run.
    await take('first', false);
  });
  afterAll(() => harness?.stop());

  const take = async (subject: string, withAnnouncement: boolean) => {
    const rules = mixedRules(5, 1).map((rule) => ({ ...rule, windowMs: 86_400_000 }));
    const checks = await checksOf(rules, { subject });
    await store.take({ checks, withAnnouncement }, AbortSignal.timeout(5_000));
  };

  it.each([
    ['costs 4 commands when admitted and 3 when denied', false, [4, 3]],
    ['costs one more when it reads the announcement along: 5 and 4', true, [5, 4]],
  ] as const)('%s', async (subject, withAnnouncement, expected) => {
    const cost = () => harness.billed(() => take(subject, withAnnouncement));
    expect([await cost(), await cost()]).toEqual(expected);
  });
});
