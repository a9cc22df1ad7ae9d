// A map with a maximum size: it drops the entry used longest ago. Each entry has its own expiry. It holds values, never
// promises, because a promise belongs to one request.

export interface BoundedCache<Value> {
  /** Includes expired entries until they are looked up or dropped. */
  readonly size: number;
  get(key: string, nowMs: number): Value | undefined;
  set(key: string, value: Value, expiresAtMs: number): void;
  delete(key: string): void;
}

export function createBoundedCache<Value>(maxEntries: number): BoundedCache<Value> {
  // A Map keeps the order of insertion, and each use inserts again: so the first entry was used longest ago.
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
