// The straight part of the script (lua/counters/take.lua) answers a plain take with the text that it has read, and the
// twin computes the outcomes from that. So three must agree after any history: the straight part, the operation `take`
// of the same script (a column that no check uses leads there), and the twin with counters of its own in memory.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { CLOCK, WITHOUT_TTL } from '../../local/clocked-script.ts';
import { createRandom, type Random } from '../../local/random.ts';
import { type ScriptServer, startScriptServer } from '../../local/script-server.ts';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Check, Operation } from '../../src/core/counting/check.ts';
import { createMemoryCounters } from '../../src/core/counting/counters.ts';
import { parseAnswer, type ScriptCall, toScriptCall } from '../../src/redis/wire.ts';
import { isLong } from '../rounds.ts';
import { type AnyCall, runAny, withAdditions } from '../shared/any-call.ts';
import { START_MS } from './engines.ts';
import { scriptFor } from './lua-counters.ts';
import { LUA } from './lua-engine.ts';

/** More than a million on Redis and a hundred thousand on gopher-lua in the long form. */
const CALLS = isLong ? (LUA === 'redis' ? 1_000_000 : 100_000) : LUA === 'redis' ? 12_000 : 4_000;
const CALLS_IN_HISTORY = 40;
/** Histories that are sent at once. */
const AT_ONCE = 20;

let server: ScriptServer;
let redis: Redis;
let sha: string;
beforeAll(async () => {
  server = await startScriptServer({ port: 0, name: 'plain-takes', lua: LUA });
  redis = new Redis(server.port);
  sha = (await redis.script('LOAD', await scriptFor(LUA, `${CLOCK} ${WITHOUT_TTL}`))) as string;
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

/** Those with a section in the straight part, and sometimes one without. */
const PLAIN: readonly AlgorithmId[] = [
  'fixed-window',
  'sliding-window-counter',
  'token-bucket',
  'leaky-bucket',
  'gcra',
];
const OTHERS: readonly Operation[] = ['peek', 'refund', 'settle', 'transfer', 'recall', 'take'];

type Rule = Pick<Check, 'id' | 'algorithm' | 'limit' | 'windowMs' | 'extra'>;

function createHistory(random: Random, subject: string): AnyCall[] {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const upTo = (most: number) => 1 + Math.floor(random() * most);
  const rules = Array.from({ length: 4 }, (_, i): Rule => {
    const algorithm = random() < 0.9 ? pick(PLAIN) : pick(ALGORITHM_IDS.filter((id) => id !== 'concurrency'));
    const mayBeSlow = algorithm !== 'sliding-window-buckets';
    return {
      id: `rule-${i}`,
      algorithm,
      limit: random() < 0.7 ? upTo(12) : pick([100, 997, 45_000]),
      windowMs: random() < 0.3 ? upTo(50) : pick([1_000, 60_000, 86_400_000, 999_983]),
      // The largest is full again after the year 2286, when times have 14 digits.
      extra: random() < 0.2 ? pick([upTo(12), mayBeSlow ? 100_000 : upTo(12)]) : undefined,
    };
  });
  let nowMs = START_MS + upTo(86_400_000);
  return Array.from({ length: CALLS_IN_HISTORY }, (): AnyCall => {
    nowMs +=
      random() < 0.3
        ? 0
        : random() < 0.6
          ? upTo(40)
          : pick([999, 1_000, 30_000, 60_000, 86_400_000, -1, -700]);
    const [{ windowMs } = { windowMs: 1 }] = rules;
    // The borders of windows.
    if (random() < 0.1) nowMs += windowMs - (nowMs % windowMs) + pick([-1, 0, 1]);
    const isPlain = random() < 0.85;
    const operation = isPlain ? 'take' : pick(OTHERS);
    // Mostly in the same order, as the rules of a request are.
    const used = random() < 0.5 ? rules.slice(0, upTo(4)) : rules.filter(() => random() < 0.5);
    const some = used.length > 0 ? used : rules.slice(0, 1);
    const ordered = random() < 0.05 ? some.toReversed() : some;
    const checks = ordered.map((rule) => {
      const limit = random() < 0.05 ? 2 * rule.limit : rule.limit;
      const check: Check = {
        ...rule,
        limit,
        key: subject,
        cost: random() < 0.6 ? 1 : pick([upTo(14), upTo(14), 90_000]),
      };
      if (isPlain) return check;
      return withAdditions(
        operation,
        {
          ...check,
          ...(random() < 0.3 && { blockMs: upTo(2_000) }),
          ...(random() < 0.3 && { countDenied: true }),
        },
        {
          units: random() < 0.5 ? 0 : upTo(5),
          chargedAtMs: nowMs - (random() < 0.5 ? 0 : upTo(100)),
          transfer: { owner: 'eu', termMs: pick([1, 40, 1_000]), holdMs: pick([1, 20, 1_000]) },
        },
      );
    });
    return { operation, checks, nowMs } as AnyCall;
  });
}

/** Adds a column that no check uses, which the straight part does not know. */
function withoutStraightPart({ keys, args }: ScriptCall, count: number): ScriptCall {
  const [header = '', ...rest] = args;
  const width = rest.length / count;
  const checks = Array.from({ length: count }, (_, i) => [...rest.slice(i * width, (i + 1) * width), '']);
  return { keys, args: [`${header} shadow`, ...checks.flat()] };
}

async function send(
  calls: readonly { readonly call: AnyCall; readonly sent: ScriptCall }[],
): Promise<unknown[]> {
  const pipeline = redis.pipeline();
  for (const { call, sent } of calls) {
    pipeline.evalsha(sha, sent.keys.length, ...sent.keys, ...sent.args, String(call.nowMs));
    pipeline.getBuffer(sent.keys[0] ?? '');
  }
  return ((await pipeline.exec()) ?? []).map(([error, reply]) => {
    if (error) throw error;
    return reply;
  });
}

/** The records of a key. The header says when the key expires, which may be a little later in the straight part. */
const recordsOf = (value: unknown) => String((value as Buffer | null)?.toString('latin1') ?? '').slice(16);

it('a plain take is the same in one straight piece, as an operation, and in the twin', async () => {
  const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31);
  let plain = 0;
  let straight = 0;
  for (let first = 0; first * CALLS_IN_HISTORY < CALLS; first += AT_ONCE) {
    const histories = Array.from({ length: AT_ONCE }, (_, i) => {
      const subject = `plain:${first + i}`;
      return createHistory(createRandom(seed + first + i), subject);
    });
    const asStraight = histories
      .flat()
      .map((call) => ({ call, sent: toScriptCall(call.operation, call as never) }));
    const asOperation = asStraight.map(({ call, sent }) => {
      const keys = sent.keys.map((key) => `${key}:slow`);
      const slow = call.operation === 'take' ? withoutStraightPart(sent, call.checks.length) : sent;
      return { call, sent: { keys, args: slow.args } };
    });
    const [fast, slow] = [await send(asStraight), await send(asOperation)];
    await redis.flushall();
    const memory = createMemoryCounters();
    for (const [i, { call }] of asStraight.entries()) {
      const where = `seed ${seed}, history ${first + Math.floor(i / CALLS_IN_HISTORY)}: ${JSON.stringify(call)}`;
      const answerOf = (replies: readonly unknown[]) =>
        parseAnswer(call.operation, replies[2 * i], call.checks as never);
      const expected = runAny(call, call.nowMs ?? 0, memory);
      expect(answerOf(fast), where).toEqual(expected);
      expect(answerOf(slow), where).toEqual(expected);
      expect(recordsOf(fast[2 * i + 1]), where).toBe(recordsOf(slow[2 * i + 1]));
      plain += 1;
      straight += Number(typeof fast[2 * i] === 'string');
    }
  }
  // Otherwise the test would compare the operation with itself.
  expect(straight / plain).toBeGreaterThan(0.4);
}, 1_800_000);
