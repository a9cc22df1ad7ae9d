// A map that never grows beyond a number of entries: the one used longest ago makes room. Each entry has its own
// expiry. It holds values, never promises: those belong to one request.

export interface BoundedCache<Value> {
  /** Entries that have expired are counted until they are asked for or make room. */
  readonly size: number;
  get(key: string, nowMs: number): Value | undefined;
  set(key: string, value: Value, expiresAtMs: number): void;
  delete(key: string): void;
}

export function createBoundedCache<Value>(maxEntries: number): BoundedCache<Value> {
  // In the order of use, as a Map keeps the order of insertion: the first one was used longest ago.
  const entries = new Map<string, { readonly value: Value; readonly expiresAtMs: number }>();

  return {
    get size() {
      return entries.size;
    },
    get(key, nowMs) {
      const entry = entries.get(key);
      if (entry === undefined) return undefined;
      entries.delete(key);
      if (entry.expiresAtMs <= nowMs) return undefined;
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, expiresAtMs) {
      entries.delete(key);
      entries.set(key, { value, expiresAtMs });
      if (entries.size <= maxEntries) return;
      for (const oldest of entries.keys()) {
        entries.delete(oldest);
        return;
      }
    },
    delete: (key) => void entries.delete(key),
  };
}
