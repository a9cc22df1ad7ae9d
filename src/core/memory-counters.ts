// Counters in a Map: for the model in tests, and for the limiter of one isolate.
import type { Counter, Counters } from './counters.ts';

export interface MemoryCounters extends Counters {
  /** Forgets all counters of a key. */
  reset(key: string): void;
}

export function createMemoryCounters(): MemoryCounters {
  const keys = new Map<string, Map<string, Counter>>();

  return {
    get: (key, id) => keys.get(key)?.get(id),

    save(key, id, counter, nowMs) {
      const kept = [...(keys.get(key) ?? [])].filter(
        ([otherId, other]) => otherId !== id && other.expiresAtMs > nowMs,
      );
      if (counter) kept.push([id, counter]);
      if (kept.length > 0) keys.set(key, new Map(kept));
      else keys.delete(key);
    },

    reset: (key) => void keys.delete(key),
  };
}
