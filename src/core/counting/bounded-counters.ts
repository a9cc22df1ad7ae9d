// A bounded number of counters in memory, for limits that one isolate counts alone. The isolate forgets the counter
// that was used longest ago.
import { createBoundedCache } from '../bounded-cache.ts';
import type { Counter, Counters } from './judging.ts';

export function createBoundedCounters(maxCounters: number): Counters {
  const counters = createBoundedCache<Counter>(maxCounters);
  const nameOf = (key: string, id: string) => `${id} ${key}`;

  return {
    // Returns expired counters, too: the algorithm ignores them by the clock of the call.
    get: (key, id) => counters.get(nameOf(key, id), Number.NEGATIVE_INFINITY),
    save(key, id, counter) {
      if (counter) counters.set(nameOf(key, id), counter, counter.expiresAtMs);
      else counters.delete(nameOf(key, id));
    },
  };
}
