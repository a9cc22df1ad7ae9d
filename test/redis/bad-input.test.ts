// The script may get wrong input, or find foreign data. It reports that before it writes, or treats it as no state, and
// never damages a key.
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { Borders } from '../../src/core/counting/calendar.ts';
import {
  type Check,
  type CheckOf,
  type Operation,
  problemOf,
  type SettleCheck,
  type TransferCheck,
} from '../../src/core/counting/check.ts';
import { createMemoryCounters, runChecks } from '../../src/core/counting/counters.ts';
import type { AnswerOf } from '../../src/core/ports/region.ts';
import { toScriptCall } from '../../src/redis/wire.ts';
import { rounds } from '../rounds.ts';
import { type Additions, type NamedCall, withAdditions } from '../shared/any-call.ts';
import { createCheck, holdsSeats, next, nextKey, WITHOUT_SEATS } from './engines.ts';
import { type LuaCounters, startLuaCounters } from './lua-counters.ts';

const HOUR_MS = 3_600_000;
const LIMIT = 5;

let lua: LuaCounters;
let good: Check;
beforeAll(async () => {
  lua = await startLuaCounters({ injectedClock: false });
});
afterAll(() => lua[Symbol.asyncDispose]());
beforeEach(async () => {
  await lua.redis.flushall();
  good = createCheck({ algorithm: 'gcra', limit: LIMIT, windowMs: 1_000 * HOUR_MS });
  await run('take', [good]);
});

const run = <O extends Operation>(operation: O, checks: readonly CheckOf<O>[]): Promise<AnswerOf<O>> =>
  lua.run<O>({ operation, checks } as unknown as NamedCall<O>);
const send = (keys: readonly string[], args: readonly string[]) =>
  lua.redis.eval(lua.script, keys.length, ...keys, ...args);

/** The good check with one wrong field, of any type. */
const spoilt = (changes: Changes): SettleCheck & TransferCheck =>
  ({ ...createCheck(good), ...changes }) as unknown as SettleCheck & TransferCheck;
type Changes = Readonly<Record<string, unknown>>;

/** Everything in Redis. */
async function dump(): Promise<Record<string, string>> {
  const keys = (await lua.redis.keys('*')).sort();
  const values = await Promise.all(keys.map((key) => lua.redis.dumpBuffer(key)));
  return Object.fromEntries(keys.map((key, i) => [key, values[i]?.toString('hex') ?? '']));
}

/** The call is refused with this message, writes nothing, and leaves everything as it was. */
async function expectRefusal(asked: () => Promise<unknown>, message: string | RegExp): Promise<void> {
  const before = await dump();
  await expect(asked()).rejects.toThrow(
    typeof message === 'string'
      ? new RegExp(`^WEIR_BAD_ARGUMENT ${message.replaceAll(/[\^.]/g, '\\$&')}$`)
      : message,
  );
  expect(await dump()).toEqual(before);
  expect((await run('take', [good])).outcomes).toMatchObject([{ allowed: true, remaining: LIMIT - 2 }]);
  await lua.redis.flushall();
  await run('take', [good]);
}

const refuses = (changes: Changes, problem: string) =>
  // A good check goes first. It must not have been charged when the second one is refused.
  expectRefusal(() => run('take', [good, spoilt(changes)]), `check 2: ${problem}`);

const NO_WHOLE_NUMBERS = [0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 52 + 1, 2 ** 53, 1e300];

/** Characters that end a record, or are not plain text. */
const NO_SEAT_IDS = [' ', '\n', ';', 'ä', '\u0000'].map((odd) => odd + 'x'.repeat(15));

describe('the script refuses', () => {
  it.each([
    ['limit', 'limit must be a whole number above 0'],
    ['windowMs', 'windowMs must be a whole number from 1 to 2^40'],
    ['cost', 'cost must be a whole number above 0'],
    ['extra', 'burst and buckets must be whole numbers above 0'],
  ] as const)('%s if it is not a whole number from 1 to 2^52', async (field, problem) => {
    for (const value of NO_WHOLE_NUMBERS) await refuses({ [field]: value }, problem);
  });

  it('a window above 2^40 ms', async () => {
    await refuses({ windowMs: 2 ** 40 + 1 }, 'windowMs must be a whole number from 1 to 2^40');
  });

  it.each(['fixed-window', 'sliding-window-counter', 'token-bucket'] as const)(
    'such numbers in a plain take of %s, too, whether its counter exists or not',
    async (algorithm) => {
      const fine = createCheck({ algorithm, limit: LIMIT, windowMs: HOUR_MS, extra: LIMIT });
      for (const exists of [false, true])
        for (const field of ['limit', 'windowMs', 'cost', 'extra'])
          for (const value of NO_WHOLE_NUMBERS) {
            if (exists) await run('take', [fine]);
            await expectRefusal(
              () => run('take', [{ ...fine, [field]: value }]),
              /^WEIR_BAD_ARGUMENT check 1: /,
            );
          }
    },
  );

  it('numbers whose fractions add up to a whole one', async () => {
    const fine = createCheck({ algorithm: 'fixed-window', limit: LIMIT, windowMs: HOUR_MS });
    for (const changes of [
      { limit: 1.5, windowMs: HOUR_MS + 0.5 },
      { cost: 1.5, extra: 1.5 },
    ])
      await expectRefusal(() => run('take', [{ ...fine, ...changes }]), /^WEIR_BAD_ARGUMENT check 1: /);
  });

  it('more than 500 checks', async () => {
    const checks = Array.from({ length: 501 }, (_, i) => ({ ...good, id: `rule-${i}` }));
    await expectRefusal(() => run('take', checks), 'more than 500 checks');
    await expectRefusal(
      () =>
        run(
          'take',
          checks.map((check) => ({ ...check, cost: 2 })),
        ),
      'more than 500 checks',
    );
  });

  it('text instead of a number, and writes nothing', async () => {
    for (const field of ['limit', 'windowMs', 'cost', 'extra'] as const)
      await expectRefusal(() => run('take', [good, spoilt({ [field]: 'abc' })]), /./);
  });

  it('an unknown algorithm', async () => {
    for (const algorithm of ['', 'GCRA', 'counters', 'invalid-check', 'nil', "gcra'"])
      await refuses({ algorithm }, 'unknown algorithm');
  });

  it('an id that could be part of another record', async () => {
    for (const id of ['', ' ', 'a b', 'a;b', 'a:b', 'ä', 'a\n', '%', '.*'])
      await refuses({ id }, 'an id must have letters, digits, - or _');
  });

  it('a name without its semicolon, without its colon, or of one letter', async () => {
    const second = createCheck({ algorithm: 'sliding-window-buckets', limit: LIMIT, windowMs: HOUR_MS });
    const { keys, args } = toScriptCall('take', { checks: [good, { ...second, key: good.key }] });
    const name = args.findLastIndex((word) => word.startsWith(';'));
    // The script could find a name without its signs inside the previous record.
    for (const wrong of ['b', ':b', ';b', ';:b', `${good.id}:b`, `;${good.id}b`, ''])
      await expectRefusal(() => send(keys, args.with(name, wrong)), /^WEIR_BAD_ARGUMENT check 2: /);
  });

  it('an unknown operation, an unknown column, and one of another operation', async () => {
    const { keys, args } = toScriptCall('take', { checks: [good] });
    for (const operation of ['', 'TAKE', 'reset', 'taken', '1'])
      await expectRefusal(() => send(keys, args.with(0, operation)), 'unknown operation');
    for (const column of ['colour', 'kept', 'cost cost'])
      await expectRefusal(() => send(keys, args.with(0, `take ${column}`)), 'unknown column');
  });

  it('a seat id that does not have 16 letters, digits, - or _', async () => {
    for (const seatId of ['', 'x'.repeat(15), 'x'.repeat(17), 'x'.repeat(32), ...NO_SEAT_IDS])
      await refuses({ algorithm: 'concurrency', seatId }, 'a seat id must have 16 letters, digits, - or _');
  });

  it('no check because of a seat id that its algorithm does not use: it is not read as a burst', async () => {
    const [before] = (await run('peek', [good])).outcomes;
    const seated = { ...good, seatId: '9007199254740993' };
    for (const operation of ['peek', 'recall', 'peek'] as const)
      expect((await run(operation, [seated])).outcomes).toEqual([
        operation === 'peek' ? before : 'unchanged',
      ]);
  });

  it('a seat without an id, if no other check of the call has one', async () => {
    await refuses({ algorithm: 'concurrency' }, 'a seat id must have 16 letters, digits, - or _');
  });

  it('to count denials of seats', async () => {
    const seat = createCheck({ algorithm: 'concurrency', limit: LIMIT, windowMs: HOUR_MS });
    await refuses({ ...seat, countDenied: true }, 'concurrency cannot count denied requests');
  });

  it('more units, buckets or unit-milliseconds than it can count exactly', async () => {
    const tooMany = { limit: 100_001, windowMs: 1 };
    await refuses(
      { algorithm: 'sliding-window-log', ...tooMany },
      'sliding-window-log takes a limit of up to 100000',
    );
    const seat = { algorithm: 'concurrency', seatId: 'x'.repeat(16) };
    await refuses({ ...seat, ...tooMany }, 'concurrency takes a limit of up to 100000');
    await refuses({ algorithm: 'sliding-window-buckets', extra: 101 }, 'there can be up to 100 buckets');
    const product = 'limit times windowMs must stay below 2^52';
    await refuses({ limit: 2 ** 26 + 1, windowMs: 2 ** 26 }, product);
    await refuses({ limit: 1, windowMs: 2 ** 26, extra: 2 ** 26 + 1 }, product);
  });

  it('a bucket that needs longer than 2^44 ms to fill, in a plain take, too', async () => {
    const problem = 'an empty bucket must be full again within 2^44 ms';
    for (const algorithm of ['token-bucket', 'gcra', 'leaky-bucket'] as const) {
      const slow = { algorithm, limit: 3, windowMs: 2 ** 24, extra: 3 * 2 ** 20 };
      await refuses({ ...slow, extra: slow.extra + 1 }, problem);
      const check = createCheck(slow);
      await expectRefusal(() => run('take', [{ ...check, extra: slow.extra + 1 }]), `check 1: ${problem}`);
      expect((await run('take', [check])).outcomes).toMatchObject([{ allowed: true }]);
    }
  });

  it('a wrong number of arguments', async () => {
    const { keys, args } = toScriptCall('take', { checks: [good] });
    for (const wrong of [args.slice(0, -1), [...args, ''], args.slice(0, 1), []])
      await expectRefusal(
        () => send(keys, wrong),
        /^WEIR_BAD_ARGUMENT expected \d arguments? and \d for each check$/,
      );
  });

  it('options that are not whole numbers', async () => {
    for (const value of [1.5, -1, 1e20, 2 ** 40 + 1]) {
      await refuses({ blockMs: value }, 'block must be a whole number from 1 to 2^40');
    }
    for (const value of [1.5, -1, 1e20]) {
      await refuses({ leaseUnits: value }, 'lease must be a whole number above 0');
    }
  });

  it('to transfer without an owner, to an invalid owner, and without a term', async () => {
    const fine = { owner: 'eu', termMs: 1, holdMs: 1 };
    const transferring = (transfer: unknown, problem: string) =>
      expectRefusal(
        () => run('transfer', [{ ...good, transfer: fine }, spoilt({ transfer })]),
        `check 2: ${problem}`,
      );
    await transferring(undefined, 'transfer needs the name of a region');
    for (const owner of ['', 'EU', 'a b', 'a;', 'a\n', 'x'.repeat(33)])
      await transferring({ ...fine, owner }, 'transfer needs the name of a region');
    for (const value of [...NO_WHOLE_NUMBERS, 2 ** 44 + 1, undefined])
      for (const field of ['termMs', 'holdMs'])
        await transferring({ ...fine, [field]: value }, 'term and hold must be whole numbers from 1 to 2^44');
  });

  it('to renew a check without a seat', async () => {
    for (const algorithm of ALGORITHM_IDS.filter((id) => id !== 'concurrency'))
      await expectRefusal(() => run('renew', [spoilt({ algorithm })]), 'check 1: only seats can be renewed');
  });

  it('to settle a seat, to settle without the time of the charge, and to settle nothing', async () => {
    const settling = (changes: Changes, problem: string) =>
      expectRefusal(
        () => run('settle', [{ ...good, chargedAtMs: 1 }, spoilt({ chargedAtMs: 1, ...changes })]),
        `check 2: ${problem}`,
      );
    const seat = createCheck({ algorithm: 'concurrency', limit: LIMIT, windowMs: HOUR_MS });
    await settling({ ...seat, chargedAtMs: 1 }, 'seats cannot be settled');
    await settling({ chargedAtMs: undefined }, 'settle needs the time of the charge');
    for (const value of NO_WHOLE_NUMBERS) {
      await settling({ chargedAtMs: value }, 'at must be a whole number above 0');
      await settling({ cost: value }, 'cost must be a whole number above 0');
    }
    const { keys, args } = toScriptCall('settle', { checks: [{ ...good, chargedAtMs: 1 }] });
    await expectRefusal(() => send(keys, args.with(-1, '')), 'check 1: settle needs the time of the charge');
  });

  it('a call without arguments', async () => {
    await expectRefusal(() => send([nextKey()], []), 'expected 1 argument and 3 for each check');
  });

  it('a key number that names no key', async () => {
    const { keys, args } = toScriptCall('take', { checks: [good, { ...good, key: nextKey() }] });
    const at = args.length - 1;
    for (const number of ['0', '3', '-1', '1.5', 'abc', '', 'nan']) {
      const wrong = args.with(at, number);
      await expectRefusal(() => send(keys, wrong), 'check 2: key must be the number of a key');
    }
    await expectRefusal(() => send([], args), 'check 1: key must be the number of a key');
  });
});

describe('the script and its twin', () => {
  const number = fc.oneof(
    fc.integer({ min: 1, max: 10 }),
    fc.constantFrom(...NO_WHOLE_NUMBERS, 100, 101, 100_000, 100_001, 2 ** 26, 2 ** 26 + 1, 2 ** 52),
  );
  const anyCheck = fc
    .record({
      algorithm: fc.constantFrom<string>(...ALGORITHM_IDS, 'unknown'),
      id: fc.constantFrom('rule', 'rule', 'Rule-1_a', 'a b', ''),
      limit: number,
      windowMs: number,
      cost: number,
      extra: fc.option(number, { nil: undefined }),
      seatLength: fc.constantFrom(0, 15, 16, 16, 16, 17),
      countDenied: fc.boolean(),
      chargedAtMs: fc.option(number, { nil: undefined }),
      units: fc.option(number, { nil: 0 }),
      borders: fc.option(
        fc.oneof(fc.tuple(number, number, number, number), fc.constant<Borders>([1, 2, 3, 2 ** 47])),
        { nil: undefined },
      ),
      transfer: fc.record({ owner: fc.constantFrom('eu', 'EU', ''), termMs: number, holdMs: number }),
    })
    .map(({ algorithm, extra, seatLength, ...rest }) => {
      const holdsSeat = holdsSeats(algorithm as AlgorithmId);
      const own = holdsSeat ? { seatId: 'x'.repeat(seatLength) } : { extra };
      const { chargedAtMs, units, transfer, ...plain } = rest;
      const check: Check = { key: nextKey(), algorithm: algorithm as AlgorithmId, ...plain, ...own };
      return { check, additions: { chargedAtMs, units, transfer } };
    });

  const operation = fc.constantFrom<Operation>(
    ...(['take', 'peek', 'refund', 'settle', 'renew', 'transfer', 'recall'] as const),
  );

  it('refuse the same checks, in the same words', async () => {
    const seat = createCheck({ algorithm: 'concurrency', limit: LIMIT, windowMs: HOUR_MS });
    await fc.assert(
      fc.asyncProperty(anyCheck, operation, async ({ check: plain, additions }, asked) => {
        const check = withAdditions(asked, plain, additions as Additions);
        const problem = problemOf(check, asked);
        const words = problem === undefined ? undefined : `check 2: ${problem}`;
        const refusal = (error: Error) => error.message;
        const transfer = { owner: 'eu', termMs: 1, holdMs: 1 };
        const first = asked === 'renew' ? seat : { ...good, chargedAtMs: 1, transfer };
        const byScript = await run(asked, [first, check]).then(() => undefined, refusal);
        const byTwin = await Promise.resolve()
          .then(() => runChecks(asked, [first, check], 1, createMemoryCounters()))
          .then(() => undefined, refusal);
        expect(byTwin).toBe(words);
        expect(byScript).toBe(words === undefined ? undefined : `WEIR_BAD_ARGUMENT ${words}`);
      }),
      { numRuns: rounds(500) },
    );
  });

  it('answer alike if limit times windowMs is exactly 2^52', async () => {
    const nowMs = 1_800_000_000_001;
    for (const algorithm of WITHOUT_SEATS) {
      const limit = algorithm === 'sliding-window-log' ? 2 ** 16 : 2 ** 20;
      const check = createCheck({ algorithm, limit, windowMs: 2 ** 52 / limit });
      const memory = createMemoryCounters();
      for (const cost of [limit, 1, limit - 1, 1, 1]) {
        const later = nowMs + (cost === 1 ? 0 : 2 ** 31 + 1);
        const checks = [next(check, { cost, countDenied: true })];
        const expected = runChecks('take', checks, later, memory);
        expect(await lua.run({ operation: 'take', checks, nowMs: later })).toEqual(expected);
      }
    }
  });
});
