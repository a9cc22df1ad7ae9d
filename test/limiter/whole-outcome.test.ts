// What a request is told of the whole limit, although one region has counted it with its part.
import { expect, it } from 'vitest';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { open } from './regional-count-harness.ts';

useFakeTime();

it.each(['token-bucket', 'leaky-bucket', 'gcra'] as const)(
  'a %s is free again as soon as the whole limit drains, not only the part of the region',
  async (algorithm) => {
    const { count } = open({ placed: [place({ us: 10, eu: 10, ap: 10 }, { algorithm })] });
    for (let units = 1; units <= 5; units += 1) {
      const [result] = (await count()).results;
      expect(result?.outcome.remaining).toBe(30 - units);
      // Thirty units a minute.
      expect((result?.outcome.resetAtMs ?? 0) - Date.now()).toBe(units * 2_000);
    }
  },
);
