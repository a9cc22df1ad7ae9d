// Work whose failure no client must notice.
import { expect, it } from 'vitest';
import { attempt, attemptLater } from '../../src/http/guard.ts';

const bug = new TypeError('x');
const openLog = () => {
  const bugs: unknown[] = [];
  return { bugs, bug: (error: unknown) => void bugs.push(error) };
};

it('work returns its result, at once or later', async () => {
  const log = openLog();
  expect(attempt(log, (a: number, b: number) => a - b, 5, 3)).toBe(2);
  expect(await attemptLater(log, async (a: number, b: number) => a - b, 5, 3)).toBe(2);
  expect(log.bugs).toEqual([]);
});

it('work that fails returns nothing, and its error is reported', async () => {
  const log = openLog();
  const fail = (..._: number[]) => {
    throw bug;
  };
  expect(attempt(log, fail, 1)).toBeUndefined();
  expect(await attemptLater(log, async (...given: number[]) => fail(...given), 1, 2)).toBeUndefined();
  expect(await attemptLater(log, fail, 1, 2)).toBeUndefined();
  expect(log.bugs).toEqual([bug, bug, bug]);
});
