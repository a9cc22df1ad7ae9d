// Random histories of script calls: all operations and options, several rules in a call, limits that change, moments at
// the borders of windows, clocks that go back, wrong calls, and keys that hold foreign values.
import fc from 'fast-check';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { type Check, type Operation, problemOf } from '../../src/core/counting/check.ts';
import { type ScriptCall, toScriptCall } from '../../src/redis/wire.ts';
import { START_MS } from '../redis/engines.ts';
import { withAdditions } from '../shared/any-call.ts';

/** Mostly takes. */
const OPERATIONS = [
  'take',
  'take',
  'take',
  'take',
  'peek',
  'refund',
  'settle',
  'renew',
  'transfer',
  'recall',
] as const;
const SEATS = ['seat-aaaaaaaaaaa', 'seat-bbbbbbbbbbb', 'SEAT_ccccccccccc', '0123456789-_-_-_'];

/** Odd spellings of numbers, and some texts that are no numbers. */
const ODD = [
  ...['', ' ', '0', '-1', '-0', '1.5', '.5', '5.', ' 5', '5 ', '+5', '5\n', '1e3', '1E3', '1e', '1e400'],
  ...['0x10', '0X1P4', '0x', '0b11', '1_000', 'nan', 'inf', '-inf', 'Infinity', 'abc', 'nil', 'true'],
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
    'transfer',
    'recall',
    'reset',
    'TAKE',
    'take ',
    ' 1',
    ' 0',
    ' 000000001',
    ' 010',
  ],
  ...['1', '2', '3', '101', ';rule-1:g', ';rule-1:h', ';rule-1:'],
  ...[';rule-2:l', '0123456789abcdef', '%', '%d', '.*', 'rule-1', 'rule-1 ', '\n', ';'],
];

/** Values that are not, or not quite, what the script writes. */
const FOREIGN = [
  ...[
    '',
    '0',
    'weir3',
    '001800000060000 weir3',
    '001800000060000 weir2;',
    'weir2 001800000060000;\nrule-1 f1 2;',
  ],
  ...['00180000006E000 weir3;rule-1:f1800000060000 3;', 'xxxxxxxxxxxxxxx weir3;;;'],
  ...['001800000060000 weir3;', '001800000060000 weir3;rule-1:f18000', '001800000060000 weir3;rule-1:f1 2'],
  ...[
    '001800000060000 weir3;rule-1:f1800000060000 3;',
    '001800000060000 weir3;rule-2:f1800000060000 x;',
    '001800000060000 weir3;rule-1:f0001800000060000 003;',
    '001800000060000 weir3;rule-3:z1800000060000 3;',
    '001800000060000 weir3;rule-1:F1800000050000 1800000060000 3;',
    '001800000060000 weir3;rule-1:F1800000050000;',
  ],
  ...[
    '001800000060000 weir3;rule-1:m1800000060000 1800000030000 eu;',
    '001800000060000 weir3;rule-1:m1800000060000 eu;',
    '001800000060000 weir3;rule-1:m9991800000060000 1 eu;',
  ],
];

const number = (min: number, max: number) => fc.integer({ min, max });
/** In one of this many cases. */
const oneIn = <T>(cases: number, arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: cases - 1, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const rule = fc.record({
  algorithm: fc.constantFrom(...ALGORITHM_IDS),
  limit: fc.oneof(number(1, 12), fc.constantFrom(100, 997, 100_000)),
  windowMs: fc.oneof(number(1, 50), fc.constantFrom(1_000, 60_000, 86_400_000, 999_983, 2 ** 32)),
  extra: oneIn(2, number(1, 12)),
  countDenied: oneIn(4, fc.constant(true)),
  blockMs: oneIn(3, number(1, 2_000)),
  isShadow: oneIn(4, fc.constant(true)),
});

/** To the border of the first rule's window or bucket, some milliseconds before or after it. */
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
  operation: fc.constantFrom<Operation>(...OPERATIONS),
  rules: fc.uniqueArray(fc.nat({ max: 3 }), { minLength: 1, maxLength: 4 }),
  cost: fc.oneof(fc.constant(1), number(1, 14)),
  want: fc.oneof(fc.constant(0), number(0, 5)),
  seat: fc.constantFrom(...SEATS),
  isRaised: fc.boolean(),
  transfer: fc.record({
    owner: fc.constantFrom('eu', 'eu', 'us-west-2'),
    termMs: fc.constantFrom(1, 40, 1_000, 60_000),
    holdMs: fc.constantFrom(1, 20, 60_000, 2 ** 33),
  }),
  advance,
  chargedAgoMs: fc.oneof(fc.constant(0), number(0, 100), fc.constantFrom(1_000, 60_000, -1, -60_000)),
  mutations: fc.oneof(
    { weight: 6, arbitrary: fc.array(mutation, { maxLength: 0 }) },
    { weight: 1, arbitrary: fc.array(mutation, { minLength: 1, maxLength: 2 }) },
  ),
  // What another program does to the first key before the call.
  foreign: oneIn(
    20,
    fc.record({
      name: fc.constantFrom('SET', 'SET', 'SET', 'RPUSH', 'SADD', 'DEL'),
      value: fc.oneof(fc.constantFrom(...FOREIGN), fc.string({ maxLength: 30 })),
    }),
  ),
});

export const history = fc.record({
  rules: fc.array(rule, { minLength: 4, maxLength: 4 }),
  calls: fc.array(call, { minLength: 1, maxLength: 60, size: 'max' }),
});

export type History = typeof history extends fc.Arbitrary<infer H> ? H : never;
type Call = History['calls'][number];
type Rule = History['rules'][number];

/** A command that is sent to both: a call of the script, or a command of another program. */
export type Sent = { readonly script: ScriptCall } | { readonly command: readonly string[] };

/** What is sent, in order, for a subject of its own. */
export function* sentFor({ rules, calls }: History, subject: string): Generator<Sent> {
  let nowMs = START_MS;
  for (const made of calls) {
    nowMs += advanceMs(made.advance, nowMs, rules[made.rules[0] ?? 0]?.windowMs ?? 1);
    const checks = made.rules.flatMap((i) => toCheck(made, rules[i], i, { subject, nowMs }));
    const fitting = checks.filter((check) => problemOf(check, made.operation) === undefined);
    const { operation } = made;
    const { keys, args } = toScriptCall(operation, { checks: fitting.length > 0 ? fitting : checks });
    const { foreign } = made;
    if (foreign && keys[0] !== undefined) yield { command: [foreign.name, keys[0], foreign.value] };
    const mutated = made.mutations.reduce(mutate, args).map(readAlike);
    // Always with a clock, because the two servers have different ones.
    yield { script: { keys, args: [...mutated, String(nowMs)] } };
  }
}

function advanceMs(chosen: Call['advance'], nowMs: number, windowMs: number): number {
  if (typeof chosen === 'number') return chosen;
  const cellMs = Math.ceil(windowMs / chosen.parts);
  return cellMs - (nowMs % cellMs) + chosen.border;
}

function toCheck(
  { operation, cost, want, seat, isRaised, transfer, chargedAgoMs }: Call,
  rule: Rule | undefined,
  i: number,
  { subject, nowMs }: { subject: string; nowMs: number },
): Check[] {
  if (!rule) return [];
  const holdsSeat = rule.algorithm === 'concurrency';
  return [
    withAdditions(
      operation,
      {
        ...rule,
        // Two of the rules share a key. The others have their own.
        key: `${subject}:${Math.max(1, i)}`,
        id: `rule-${i}`,
        extra: holdsSeat ? undefined : rule.extra,
        seatId: holdsSeat ? seat : undefined,
        // Rules change their limits while their counters live.
        limit: isRaised ? rule.limit * 2 + 1 : rule.limit,
        cost,
      },
      { units: want, chargedAtMs: nowMs - chargedAgoMs, transfer },
    ),
  ];
}

function mutate(args: string[], { at, how, text }: Call['mutations'][number]): string[] {
  const i = at % (args.length + 1);
  if (how === 'remove') return args.toSpliced(i, 1);
  if (how === 'insert') return args.toSpliced(i, 0, text);
  return args.with(i % args.length, how === 'append' ? `${args[i % args.length]}${text}` : text);
}

/**
 * Redis reads exponents, infinity and the like as numbers. Go reads underscores and other prefixes, and a leading zero
 * as octal. The store spells numbers in plain digits and never sends these. So other texts that are no numbers replace
 * them.
 */
function readAlike(text: string): string {
  const isPlain = /^\s*([-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)|0x[\da-f]+)\s*$/i.test(text);
  const isNumber = text.trim() !== '' && !Number.isNaN(Number(text.replaceAll('_', '')));
  return !isPlain && (isNumber || /^\s*[-+]?(nan|inf|0[xbo])/i.test(text)) ? 'no number' : text;
}
