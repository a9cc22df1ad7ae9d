// Random histories of calls of the script: all operations and options, several rules in a call, limits that change,
// moments at the borders of windows, clocks that go back, calls that are wrong, and keys that hold something else.
import fc from 'fast-check';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import type { Check, Operation } from '../../src/core/check.ts';
import { type ScriptCall, toScriptCall } from '../../src/redis/wire.ts';
import { START_MS } from '../redis/engines.ts';

export const ANNOUNCED = '7.aaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbb';

const LEASES = ['lease-aaaaaaaaaa', 'lease-bbbbbbbbbb', 'LEASE_cccccccccc', '0123456789-_-_-_'];

/** Numbers as they should not be spelled, and some that are none. */
const ODD = [
  ...['', ' ', '0', '-1', '-0', '1.5', '.5', '5.', ' 5', '5 ', '+5', '5\n', '1e'],
  ...['0x10', '0x', '0b11', '1_000', 'abc', 'nil', 'true'],
  ...['4503599627370496', '4503599627370497', '9007199254740993', '٣'],
];
/** Pieces of the first argument and of columns. */
const PIECES = [
  ...[
    'take',
    'peek',
    'refund',
    'settle',
    'renew',
    'reset',
    'TAKE',
    'take ',
    ' key',
    ' cost',
    ' extra',
    ' want',
  ],
  ...[' block', ' flags', ' at', ' relief since full', ' relief', ' lease'],
  ...[' announced=1:x', ' announced=2:x', ' announced=x', 'd', 'l', 'dl', '101', 'gcra', 'concurrency'],
  ...['sliding-window-log', '0123456789abcdef', '%', '%d', '.*', 'rule-1', 'rule-1 ', '\n', ';'],
];

/** What a value of the script's own can be spoilt with. */
const SPOILING = [
  '\n',
  ';',
  ' ',
  ',',
  '0',
  '9',
  'e',
  'f',
  '-',
  '.',
  '\0',
  '\x7f',
  '\xff',
  '\nrule-1 f9',
  'weir2 ',
];

const number = (min: number, max: number) => fc.integer({ min, max });
const maybe = <T>(value: fc.Arbitrary<T>, freq = 2) => fc.option(value, { nil: undefined, freq });

const rule = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_IDS),
  limit: fc.oneof(number(1, 12), fc.constantFrom(100, 997, 100_000)),
  windowMs: fc.oneof(number(1, 50), fc.constantFrom(1_000, 60_000, 86_400_000, 999_983, 2 ** 32)),
  extra: maybe(number(1, 12)),
  countDenied: fc.boolean(),
  blockMs: maybe(number(1, 2_000)),
  log: maybe(fc.constant(true), 3),
});

/** To the border of the first rule's window or of its bucket, so many milliseconds before or after it. */
const advance = fc.oneof(
  fc.record({ border: fc.constantFrom(-1, 0, 1), parts: fc.constantFrom(1, 1, 10) }),
  fc.constant(0),
  number(1, 40),
  fc.constantFrom(999, 1_000, 1_001, 60_000, 86_400_000, -1, -500, -60_000),
);

const mutation = fc.record({
  at: fc.nat({ max: 30 }),
  how: fc.constantFrom('replace', 'append', 'remove', 'insert'),
  text: fc.oneof(fc.constantFrom(...ODD, ...PIECES), fc.string({ maxLength: 12 })),
});

const call = fc.record({
  operation: fc.constantFrom<Operation>('take', 'take', 'take', 'take', 'peek', 'refund', 'settle', 'renew'),
  rules: fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 }),
  cost: fc.oneof(fc.constant(1), number(1, 14)),
  want: fc.oneof(fc.constant(0), number(0, 5)),
  lease: fc.constantFrom(...LEASES),
  isRaised: fc.boolean(),
  relief: maybe(
    fc.record({ units: number(1, 14), fullLimit: fc.oneof(number(1, 12), fc.constant(1_000_000)) }),
    3,
  ),
  advance,
  chargedAgoMs: fc.oneof(fc.constant(0), number(0, 100), fc.constantFrom(1_000, 60_000, -1, -60_000)),
  expects: maybe(fc.constantFrom(ANNOUNCED, ANNOUNCED, ANNOUNCED.replace('7', '6')), 4),
  /** A clock that is none. */
  clock: maybe(fc.constantFrom(...ODD.filter((text) => !/\s/.test(text))), 50),
  mutations: fc.oneof(
    { weight: 4, arbitrary: fc.array(mutation, { maxLength: 0 }) },
    { weight: 1, arbitrary: fc.array(mutation, { minLength: 1, maxLength: 2 }) },
  ),
  // What somebody else does to the first key before the call.
  foreign: maybe(
    fc.oneof(
      fc.record({ name: fc.constantFrom('SET', 'RPUSH', 'SADD'), value: fc.string({ maxLength: 30 }) }),
      fc.record({ name: fc.constantFrom('APPEND', 'SETRANGE'), value: fc.constantFrom(...SPOILING) }),
    ),
    20,
  ),
  offset: fc.nat({ max: 60 }),
});

export const history = fc.record({
  rules: fc.array(rule, { minLength: 4, maxLength: 4 }),
  calls: fc.array(call, { minLength: 1, maxLength: 60, size: 'max' }),
});

export type History = typeof history extends fc.Arbitrary<infer H> ? H : never;
type Call = History['calls'][number];
type Rule = History['rules'][number];

/** A command that is sent to both: a call of the script, or what somebody else does. */
export type Sent = { readonly script: ScriptCall } | { readonly command: readonly string[] };

/** What is sent, in order, for a subject of one's own. */
export function* sentFor({ rules, calls }: History, subject: string): Generator<Sent> {
  let nowMs = START_MS;
  for (const made of calls) {
    nowMs += advanceMs(made.advance, nowMs, rules[made.rules[0] ?? 0]?.windowMs ?? 1);
    const checks = made.rules.flatMap((i) => toCheck(made, rules[i], i, { subject, nowMs }));
    const { operation, expects } = made;
    const { keys, args } = toScriptCall({ operation, checks, expects });
    const { foreign, offset } = made;
    if (foreign && keys[0] !== undefined) yield { command: foreignCommand(foreign, keys[0], offset) };
    const [first = '', ...rest] = made.mutations.reduce(mutate, args);
    // Never without a clock: the two servers have different ones.
    yield { script: { keys, args: [`${first} now=${made.clock ?? nowMs}`, ...rest] } };
  }
}

function foreignCommand(
  { name, value }: NonNullable<Call['foreign']>,
  key: string,
  offset: number,
): string[] {
  return name === 'SETRANGE' ? [name, key, String(offset), value] : [name, key, value];
}

function advanceMs(chosen: Call['advance'], nowMs: number, windowMs: number): number {
  if (typeof chosen === 'number') return chosen;
  const cellMs = Math.ceil(windowMs / chosen.parts);
  return cellMs - (nowMs % cellMs) + chosen.border;
}

function toCheck(
  { operation, cost, want, lease, isRaised, relief, chargedAgoMs }: Call,
  rule: Rule | undefined,
  i: number,
  { subject, nowMs }: { subject: string; nowMs: number },
): Check[] {
  if (!rule) return [];
  const isLease = rule.algorithm === 'concurrency';
  return [
    {
      ...rule,
      // Two of the rules share a key; the others have their own.
      key: `${subject}:${Math.max(1, i)}`,
      id: `rule-${i}`,
      extra: isLease ? undefined : rule.extra,
      leaseId: isLease ? lease : undefined,
      // Rules change their limits while their counters live.
      limit: isRaised ? rule.limit * 2 + 1 : rule.limit,
      cost,
      want,
      relief: operation === 'take' && relief ? { ...relief, sinceMs: nowMs - chargedAgoMs } : undefined,
      chargedAtMs: ['refund', 'settle'].includes(operation) ? nowMs - chargedAgoMs : undefined,
    },
  ];
}

function mutate(args: string[], { at, how, text }: Call['mutations'][number]): string[] {
  const i = at % (args.length + 1);
  if (how === 'remove') return args.toSpliced(i, 1);
  if (how === 'insert') return args.toSpliced(i, 0, text);
  return args.with(i % args.length, how === 'append' ? `${args[i % args.length]}${text}` : text);
}
