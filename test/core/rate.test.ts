// Every text that is accepted as a limit means exactly what it says.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ruleBodies } from '../../src/admin/schemas.ts';
import { rounds } from '../rounds.ts';

const read = (limit: unknown) =>
  ruleBodies.create.safeParse({ resource: '/x', algorithm: 'fixed-window', limit });
const SECONDS: Readonly<Record<string, number>> = { second: 1, minute: 60, hour: 3_600, day: 86_400 };
const YEAR = 366 * 86_400;

/** What a text says, found in another way than by the schema: word by word. Undefined if it does not say it exactly. */
function meaningOf(text: string): { limit: number; windowSeconds: number } | undefined {
  // Blanks may surround a slash, and nothing else may.
  const words = text.includes(' per ') ? text.split(' per ') : text.replace(/ *\/ */g, '/').split('/');
  const [amount = '', time = ''] = words;
  const count = Number.parseInt(time, 10);
  const unit = time.replace(/^\d+ */, '').replace(/s$/, '');
  const [limit, windowSeconds] = [Number(amount), (count >= 0 ? count : 1) * (SECONDS[unit] ?? 0)];
  const isSaid = words.length === 2 && /^\d+$/.test(amount) && limit >= 1 && limit <= 1e12;
  return isSaid && windowSeconds >= 1 && windowSeconds <= YEAR ? { limit, windowSeconds } : undefined;
}

const number = fc.oneof(fc.nat(100), fc.nat(2e12), fc.constantFrom(0, 1, 1e12, 1e12 + 1)).map(String);
const unit = fc.constantFrom(...Object.keys(SECONDS), 'week', 'month', 'Minute', 'min', '');
const by = fc.constantFrom('/', ' / ', '  /', ' per ');
const count = fc.oneof(
  fc.constant(''),
  fc.nat(400).map((n) => `${n} `),
  number,
);
const meant = fc.tuple(number, by, count, unit, fc.constantFrom('', 's')).map((parts) => parts.join(''));
const noise = fc
  .array(
    fc.constantFrom('1', '20', '0', ' ', '/', ' per ', 'minute', 's', 'day', '-', '.', 'e3', ',', '\n', '٣'),
  )
  .map((parts) => parts.join(''));

it('a text means what it says, or is refused', () => {
  let accepted = 0;
  fc.assert(
    fc.property(fc.oneof({ weight: 3, arbitrary: meant }, noise), (text) => {
      const { success, data } = read(text);
      if (success) accepted += 1;
      const { limit, windowSeconds } = data ?? {};
      expect(success ? { limit, windowSeconds } : undefined).toEqual(meaningOf(text));
    }),
    { numRuns: rounds(2_000) },
  );
  expect(accepted).toBeGreaterThan(100);
});
