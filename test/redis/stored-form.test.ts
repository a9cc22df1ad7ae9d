// The stored form of the version before is still read, and what is written now is what it would have written: while
// isolates of both versions run, they count together (docs/inside.md).
import { afterAll, beforeAll, expect, it } from 'vitest';
import { createCheck, next, type RuleShape } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

let lua: LuaCounters;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: true });
});
afterAll(() => lua[Symbol.asyncDispose]());

const NOW_MS = 1_800_000_000_000;
const MINUTE = { limit: 10, windowMs: 60_000 };

/** A number in bytes of 7 bits, each with its eighth bit set. */
const bytesOf = (value: number, size: number) =>
  String.fromCharCode(
    ...Array.from({ length: size }, (_, i) => 128 + (Math.floor(value / 128 ** (size - 1 - i)) % 128)),
  );
const entry = (atMs: number, total: number) => bytesOf(atMs, 7) + bytesOf(total, 8);
const SEAT = 'seat-of-before--';

it.each<[string, RuleShape, stored: string, remaining: number, after: string]>([
  ['fixed-window', { algorithm: 'fixed-window', ...MINUTE }, 'f1800000060000 3', 7, 'f1800000060000 4'],
  [
    'sliding-window-counter',
    { algorithm: 'sliding-window-counter', ...MINUTE },
    'c1800000120000 4 1',
    5,
    'c1800000120000 4 2',
  ],
  [
    'token-bucket',
    { algorithm: 'token-bucket', ...MINUTE },
    't1800000030000 300000 10',
    5,
    't1800000036000 360000 10',
  ],
  [
    'leaky-bucket under another limit',
    { algorithm: 'leaky-bucket', ...MINUTE },
    'k1800000060000 300000 5',
    5,
    'k1800000036000 360000 10',
  ],
  ['gcra', { algorithm: 'gcra', ...MINUTE }, 'g1800000030000 300000 10', 5, 'g1800000036000 360000 10'],
  [
    'sliding-window-buckets',
    { algorithm: 'sliding-window-buckets', ...MINUTE, extra: 2 },
    'b1800000090000 60000000 3,0,1',
    6,
    'b1800000090000 60000000 4,0,1',
  ],
  [
    'sliding-window-log',
    { algorithm: 'sliding-window-log', ...MINUTE },
    `l1800000059000 0 ${entry(NOW_MS - 1_000, 3)}`,
    7,
    `l1800000060000 0 ${entry(NOW_MS - 1_000, 3)}${entry(NOW_MS, 4)}`,
  ],
  [
    'concurrency',
    { algorithm: 'concurrency', ...MINUTE, seatId: 'seat-of-now-----' },
    `h1800000060000 ${SEAT}${bytesOf(NOW_MS + 60_000, 7)}`,
    9,
    `h1800000060000 ${SEAT}${bytesOf(NOW_MS + 60_000, 7)}seat-of-now-----${bytesOf(NOW_MS + 60_000, 7)}`,
  ],
])('a counter of %s goes on', async (_, rule, stored, remaining, after) => {
  const check = createCheck({ id: 'aB3-_', ...rule });
  const other = ';other:f1800000060000 1;';
  await lua.redis.set(check.key, Buffer.from(`001800000125000 weir3;aB3-_:${stored}${other}`, 'latin1'));
  const peeked = await lua.run({ operation: 'peek', checks: [next(check)], nowMs: NOW_MS });
  expect(peeked.outcomes).toMatchObject([{ remaining }]);
  await lua.run({ operation: 'take', checks: [check], nowMs: NOW_MS });
  const value = (await lua.redis.getBuffer(check.key))?.toString('latin1');
  expect(value?.slice(16)).toBe(`weir3;aB3-_:${after}${other}`);
});

it('a block and a transfer go on', async () => {
  const check = createCheck({ algorithm: 'gcra', id: 'blocked', ...MINUTE });
  const moved = { ...check, id: 'moved' };
  const stored =
    ';blocked:G1800000009000 1800000030000 300000 10;moved:m1800000060000 1800000040000 eu;other:f1800000060000 1;';
  await lua.redis.set(check.key, `001800000125000 weir3${stored}`);
  const { outcomes } = await lua.run({ operation: 'take', checks: [check, moved], nowMs: NOW_MS });
  expect(outcomes).toMatchObject([
    { allowed: false, remaining: 0, retryAfterMs: 9_000 },
    { allowed: false, resetAtMs: NOW_MS + 60_000, transferredTo: { name: 'eu', usableMs: 40_000 } },
  ]);
  expect((await lua.redis.get(check.key))?.slice(21)).toBe(stored);
});
