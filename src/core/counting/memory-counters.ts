// Counters in a Map, for the model in tests.
import { IDLE_MS } from './ceding.ts';
import type { Counter, Counters } from './judging.ts';

export interface MemoryCounters extends Counters {
  /** Forgets all counters of a key, but keeps records of cessions. */
  reset(key: string): void;
}

export function createMemoryCounters(): MemoryCounters {
  const keys = new Map<string, Map<string, Counter>>();

  return {
    get: (key, id) => keys.get(key)?.get(id),

    // Drops expired counters exactly when the script does. Otherwise a clock that goes back would show a difference.
    save(key, id, counter, nowMs) {
      const counters = keys.get(key) ?? new Map<string, Counter>();
      const before = counters.get(id)?.expiresAtMs ?? 0;
      if (counter) counters.set(id, counter);
      else counters.delete(id);
      if (nowMs !== undefined && (counter?.expiresAtMs ?? 0) < before) forgetExpired(counters, nowMs);
      if (counters.size > 0) keys.set(key, counters);
      else keys.delete(key);
    },

    reset(key) {
      const counters = keys.get(key) ?? new Map<string, Counter>();
      for (const [id, { ceded }] of counters) if (!ceded) counters.delete(id);
      if (counters.size === 0) keys.delete(key);
    },
  };
}

function forgetExpired(counters: Map<string, Counter>, nowMs: number): void {
  for (const [id, { expiresAtMs }] of counters) if (expiresAtMs + IDLE_MS <= nowMs) counters.delete(id);
}
