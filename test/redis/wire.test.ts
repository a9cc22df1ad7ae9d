// Weir does not believe answers that cannot be true: they would let requests pass, or deny them, for no reason.
import { describe, expect, it } from 'vitest';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import { parseAnswer } from '../../src/redis/wire.ts';
import { createCheck } from './engines.ts';

const NOW_MS = 1_800_000_000_000;
const RESET_MS = NOW_MS + 1_000;
const plain = createCheck({ algorithm: 'fixed-window', limit: 10, windowMs: 60_000 });
const burst = createCheck({ algorithm: 'gcra', limit: 10, extra: 20, windowMs: 60_000 });

interface Fields {
  readonly delayMs?: unknown;
  readonly allowed?: unknown;
  readonly remaining?: unknown;
  readonly retryMs?: unknown;
}
/** A reply with one outcome for each of these. */
const reply = (...checks: readonly Fields[]) => [
  NOW_MS,
  ...checks.flatMap(({ allowed = 1, remaining = 4, retryMs = 0, delayMs = 0 }) => [
    ...[allowed, remaining, RESET_MS],
    ...[retryMs, 0, delayMs],
  ]),
];
/** The answer to a plain take: the clock, the verdict, and the text that the script has read. */
const text = (sign: string, record: string) =>
  `1800000000 000999${sign}001800000015000 weir3;rule:${record};`;

describe('Weir believes an answer', () => {
  it.each<[string, Fields, object]>([
    ['that allows', {}, { allowed: true, remaining: 4, retryAfterMs: 0 }],
    [
      'that denies for a while',
      { allowed: 0, remaining: 0, retryMs: 5 },
      { allowed: false, retryAfterMs: 5 },
    ],
    ['that denies for ever', { allowed: 0, retryMs: -1 }, { allowed: false, retryAfterMs: undefined }],
    ['with the whole limit left', { remaining: 10 }, { remaining: 10 }],
  ])('%s', (_, fields, outcome) => {
    expect(parseAnswer('take', reply(fields), [plain])).toMatchObject({ nowMs: NOW_MS, outcomes: [outcome] });
  });

  it('with the whole burst left, which is more than the limit', () => {
    expect(parseAnswer('take', reply({ remaining: 20 }), [burst]).outcomes).toMatchObject([
      { remaining: 20 },
    ]);
  });

  it.each([
    ['that passes', text('+', 'f1800000060000 5'), { allowed: true, remaining: 4, retryAfterMs: 0 }],
    [
      'that is denied',
      text('-', 'f1800000060000 10'),
      { allowed: false, remaining: 0, retryAfterMs: 60_000 },
    ],
    ['of a subject that nobody has seen', '1800000000 0+', { allowed: true, remaining: 9 }],
  ])('to a plain take %s', (_, answer, outcome) => {
    expect(parseAnswer('take', answer, [plain])).toMatchObject({ nowMs: NOW_MS, outcomes: [outcome] });
  });
});

describe('Weir refuses an answer', () => {
  it.each<[string, unknown]>([
    ['that is neither yes nor no', reply({ allowed: 2 })],
    ['that is below no', reply({ allowed: -1 })],
    ['with more left than the limit', reply({ remaining: 11 })],
    ['with less than nothing left', reply({ remaining: -1 })],
    ['with a wait below the number that means for ever', reply({ allowed: 0, retryMs: -2 })],
    ['with a turn in the past', reply({ delayMs: -1 })],
    ['to a plain take, with another verdict than its counters', text('+', 'f1800000060000 10')],
    ['to a plain take, with a damaged counter', text('+', 'f1800000060000 x')],
    ['to a plain take, without a clock', '+'],
    ['to a plain take, without a verdict', '1800000000 0'],
    ['with text instead of a number', reply({ remaining: '4' })],
    ['with null instead of a number', reply({ remaining: null })],
    ['with a part of a unit', reply({ remaining: 1.5 })],
    ['with a number that is too large', reply({ remaining: Number.MAX_SAFE_INTEGER + 1 })],
    ['with a field too few', reply({}).slice(0, -1)],
    ['with a field too many', [...reply({}), 0]],
    ['for another number of checks', reply({}, {})],
    ['with nothing but the time', [NOW_MS]],
    ['that is empty', []],
    ['that is not a list', 'OK'],
    ['that is null', null],
  ])('%s', (_, answer) => {
    expect(() => parseAnswer('take', answer, [plain])).toThrow(CounterStoreError);
    expect(() => parseAnswer('take', answer, [plain])).toThrow(
      expect.objectContaining({ failure: 'bad-reply' }),
    );
  });

  it('with more left than the burst', () => {
    expect(() => parseAnswer('take', reply({ remaining: 21 }), [burst])).toThrow('out of range');
  });

  it('if one of several checks has more left than its limit', () => {
    const answer = reply({}, { remaining: 11 });
    expect(() => parseAnswer('take', answer, [plain, plain])).toThrow('out of range');
  });
});
