// Each counter in Redis is stored with the letter of its algorithm.
import { expect, it } from 'vitest';
import { ALGORITHM_IDS, letterOf } from '../../src/core/counting/algorithms/registry.ts';

const letters = ALGORITHM_IDS.map(letterOf);

it('every algorithm has a small letter of its own, and none has a letter of transferred counters', () => {
  expect(letters.filter((letter) => !/^[a-lo-z]$/.test(letter))).toEqual([]);
  expect(new Set(letters).size).toBe(ALGORITHM_IDS.length);
});

it('an algorithm keeps the letter that its counters are stored under', () => {
  const known = [
    ['fixed-window', 'f'],
    ['sliding-window-counter', 'c'],
    ['token-bucket', 't'],
    ['gcra', 'g'],
    ['leaky-bucket', 'k'],
    ['sliding-window-buckets', 'b'],
    ['sliding-window-log', 'l'],
    ['concurrency', 'h'],
  ] as const;
  expect(known.map(([id]) => letterOf(id))).toEqual(known.map(([, letter]) => letter));
});
