// The page about cost and the calculator have the same numbers.
import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { COUNTED, costOf, cuHours, FREE_COMMANDS, freeRequests, PRICES } from '../../page/cost.ts';

const text = readFileSync(new URL('../../docs/cost.md', import.meta.url), 'utf8').replace(/\s+/g, ' ');
const inWords = (value: number) => value.toLocaleString('en');

it.each([
  ['0', 0],
  ['1 million', 1],
  ['10 million', 10],
  ['100 million', 100],
])('docs/cost.md has the cost of a month with %s requests', (said, millionsOfRequests) => {
  const cost = costOf({ millionsOfRequests, regions: 3, deniedPercent: 0, checkMinutes: 60 });
  const cells = [cost.workers, cost.upstash, cost.neon, cost.together].map((amount) => amount.toFixed(2));
  expect(text).toContain(`| ${said} | ${cells.join(' | ')} |`);
});

it.each([1, 10, 15, 60])(
  'docs/cost.md has the hours of a Postgres that is asked every %i minutes',
  (minutes) => {
    expect(text).toMatch(
      new RegExp(`\\| ${minutes}( \\(default\\))? \\| ${Math.round(cuHours(minutes))} \\|`),
    );
  },
);

it('a denied request costs less, and every idle region costs a little', () => {
  const base = { millionsOfRequests: 1, regions: 1, deniedPercent: 0, checkMinutes: 60 };
  const upstash = (changes: Partial<typeof base>) => costOf({ ...base, ...changes }).upstash;
  expect(upstash({}) - upstash({ deniedPercent: 50 })).toBeCloseTo(1, 9);
  expect(upstash({ regions: 2 }) - upstash({})).toBeCloseTo(0.08712, 9);
});

it('docs/cost.md has the prices and counts of the calculator', () => {
  expect(text).toContain(
    `$${PRICES.workersMonth} a month with ${PRICES.workersIncludedMillions} million requests`,
  );
  expect(text).toContain(`then $${PRICES.workersPerMillion.toFixed(2)} a million`);
  expect(text).toContain(`$${PRICES.upstashPerMillionCommands} a million`);
  expect(text).toContain(`$${PRICES.neonPerCuHour} a CU-hour`);
  expect(text).toContain(`${inWords(COUNTED.idleCommands)} commands`);
  expect(text).toContain(
    `${COUNTED.commandsOfAdmitted} million commands; ${COUNTED.commandsOfDenied} million if denied`,
  );
  expect(text).toContain(
    `(${inWords(FREE_COMMANDS)} − ${inWords(COUNTED.idleCommands)}) ÷ ${COUNTED.commandsOfAdmitted}`,
  );
  expect(freeRequests()).toBe(114_110);
});
