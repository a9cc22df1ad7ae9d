// The id of a check is text that comes back from outside. Whoever changes it must not get a second refund.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createChargeIds, type RegionCharge } from '../../src/checks/charge-id.ts';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { rounds } from '../rounds.ts';

const ids = createChargeIds('a secret of the test');

const charge: RegionCharge = {
  region: 'us',
  check: {
    key: 'weir:{user:ann}',
    id: 'counter',
    algorithm: 'fixed-window',
    limit: 10,
    windowMs: 60_000,
    cost: 4,
    chargedAtMs: 1_800_000_000_000,
  },
};

const textOf = fc.string({ unit: 'grapheme', maxLength: 8 });
const number = fc.nat({ max: Number.MAX_SAFE_INTEGER });
const anyCharge: fc.Arbitrary<RegionCharge> = fc.record({
  region: textOf,
  usage: fc.option(
    fc.record({ ruleId: textOf, tenantId: textOf, userId: textOf, apiKeyId: textOf, subject: number }),
    { nil: undefined },
  ),
  check: fc.record({
    ...{ key: textOf, id: textOf, algorithm: fc.constantFrom(...ALGORITHM_IDS) },
    ...{ limit: number, windowMs: number, cost: number, chargedAtMs: number },
    extra: fc.option(number, { nil: undefined }),
    seatId: fc.option(textOf, { nil: undefined }),
    borders: fc.option(fc.tuple(number, number, number, number), { nil: undefined }),
  }),
});

/** Texts of which one is written into the id: separators, base64 of both alphabets, blanks, other letters. */
const piece = fc.oneof(
  fc.constantFrom('.', '=', '==', '-', '_', '+', '/', ' ', '\n', '\0', 'A', 'a', '.1', '%2E', '\u{ff0e}'),
  fc.string({ unit: 'binary', maxLength: 3 }),
);
const mutation = fc.record({ at: fc.nat(), removed: fc.nat({ max: 2 }), piece });
type Mutation = typeof mutation extends fc.Arbitrary<infer T> ? T : never;

const mutated = (text: string, { at, removed, piece: added }: Mutation) => {
  const place = at % (text.length + 1);
  return text.slice(0, place) + added + text.slice(place + removed);
};

describe('the id of a check', () => {
  it('gives its charges back as they were, with whose usage they are', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyCharge, { minLength: 1, maxLength: 3 }), async (charges) => {
        expect((await ids.read(await ids.write(charges)))?.charges).toEqual(charges);
      }),
      { numRuns: rounds(100) },
    );
  });

  it('is not the id of another check that charged the same at the same moment', async () => {
    const [one, other] = [await ids.write([charge]), await ids.write([charge])];
    expect((await ids.read(one))?.name).not.toBe((await ids.read(other))?.name);
  });

  it('is read in no other spelling', async () => {
    const id = await ids.write([charge]);
    const [payload = '', signature = ''] = id.split('.');
    const last = signature.at(-1) ?? '';
    const sameBits = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
      .filter((letter) => letter !== last)
      .map((letter) => `${payload}.${signature.slice(0, -1)}${letter}`);
    const swapped = [...id]
      .map((letter, i) => {
        const other = letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();
        return id.slice(0, i) + other + id.slice(i + 1);
      })
      .filter((one) => one !== id);
    const spelled = [
      ...['.', '.1', '.2', '=', '==', ' ', '\n', '.=', `.${signature}`].map((end) => `${id}${end}`),
      ...['.', ' ', '\n', `${payload}.`, '\u{feff}'].map((start) => `${start}${id}`),
      ...[`${payload}=.${signature}`, `${payload}..${signature}`, `${payload}. ${signature}`],
      ...[payload, `${payload}.`, `.${signature}`, '', '.', '..'],
      ...[id.replaceAll('-', '+').replaceAll('_', '/'), encodeURIComponent(id), id.replace('.', '%2E')],
    ].filter((one) => one !== id);
    for (const text of [...spelled, ...sameBits, ...swapped])
      expect(await ids.read(text), JSON.stringify(text)).toBeUndefined();
  });

  it('is refused, or is the very same text, whatever is changed in it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(mutation, { minLength: 1, maxLength: 3 }), async (mutations) => {
        const id = await ids.write([charge]);
        const text = mutations.reduce(mutated, id);
        expect((await ids.read(text)) === undefined).toBe(text !== id);
      }),
      { numRuns: rounds(500) },
    );
  });

  it('is refused by a Weir with another secret', async () => {
    expect(await createChargeIds('another').read(await ids.write([charge]))).toBeUndefined();
  });
});
