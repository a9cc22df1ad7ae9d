// What a decision may cost, as far as it can be counted exactly. Times are for `npm run bench -- engine`.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type BenchRedis, startBenchRedis } from '../../bench/engine/bench-redis.ts';
import { measureBytes } from '../../bench/engine/bytes.ts';
import { countCommands, measureCommands, rulesOf } from '../../bench/engine/commands.ts';
import { COUNTS, checksOf } from '../../bench/engine/rules.ts';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import { composeScript } from '../../src/redis/script.ts';

let redis: BenchRedis;
let sha: string;
beforeAll(async () => {
  redis = await startBenchRedis();
  sha = await redis.load((await composeScript()).text);
});
afterAll(() => redis[Symbol.asyncDispose]());

describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
  it.each(COUNTS)('pays for one read, and one write per key, with %i rules of one subject', async (count) => {
    const rules = rulesOf(algorithm, count);
    const keys = new Set((await checksOf(rules, { subject: 'anyone' })).map(({ key }) => key)).size;
    const admitted = await countCommands(redis, sha, rules, 'admitted');
    expect(Math.max(admitted.fresh, admitted.steady)).toBeLessThanOrEqual(3 + keys);
    const denied = await countCommands(redis, sha, rules, 'denied');
    expect(Math.max(denied.fresh, denied.steady)).toBeLessThanOrEqual(3);
  });
});

describe('rules of several algorithms on one subject', () => {
  it('cost at most 4 commands when admitted and 3 when denied, however many they are', async () => {
    const { admitted, denied } = await measureCommands(redis, sha);
    for (const count of COUNTS) {
      expect(admitted[count]).toBeLessThanOrEqual(4);
      expect(denied[count]).toBeLessThanOrEqual(3);
    }
  });

  it('take no more memory than the same three of @upstash/ratelimit', async () => {
    const { three, peerThree } = await measureBytes(redis, sha);
    expect(three).toBeLessThanOrEqual(peerThree);
  });
});
