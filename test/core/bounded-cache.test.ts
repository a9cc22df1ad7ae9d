import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type BoundedCache, createBoundedCache } from '../../src/core/bounded-cache.ts';
import { rounds } from '../rounds.ts';

describe('the bounded cache', () => {
  it('drops the entry that was used longest ago when it is full', () => {
    const cache = createBoundedCache<number>(2);
    cache.set('a', 1, 100);
    cache.set('b', 2, 100);
    expect(cache.get('a', 0)).toBe(1);
    cache.set('c', 3, 100);
    expect([cache.get('a', 0), cache.get('b', 0), cache.get('c', 0)]).toEqual([1, undefined, 3]);
  });

  it('keeps an entry until the millisecond of its expiry', () => {
    const cache = createBoundedCache<number>(2);
    cache.set('a', 1, 100);
    expect(cache.get('a', 99)).toBe(1);
    expect(cache.get('a', 100)).toBeUndefined();
    expect(cache.size).toBe(0);
  });

  it('forgets an entry that is deleted, and nothing else', () => {
    const cache = createBoundedCache<number>(2);
    cache.set('a', 1, 100);
    cache.set('b', 2, 100);
    cache.delete('a');
    cache.delete('never there');
    expect([cache.get('a', 0), cache.get('b', 0), cache.size]).toEqual([undefined, 2, 1]);
  });

  it('behaves like a plain list that is searched from end to end', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.array(step, { maxLength: 60 }), (maxEntries, steps) => {
        const cache = createBoundedCache<number>(maxEntries);
        const model = createModel(maxEntries);
        let nowMs = 0;
        for (const { key, value, ttlMs, passedMs, isDelete } of steps) {
          nowMs += passedMs;
          if (isDelete) for (const each of [cache, model]) each.delete(key);
          else if (value === undefined) expect(cache.get(key, nowMs)).toBe(model.get(key, nowMs));
          else for (const each of [cache, model]) each.set(key, value, nowMs + ttlMs);
          expect(cache.size).toBe(model.size);
          expect(cache.size).toBeLessThanOrEqual(maxEntries);
        }
      }),
      { numRuns: rounds(2_000) },
    );
  });
});

const step = fc.record({
  key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
  value: fc.option(fc.nat(), { nil: undefined }),
  ttlMs: fc.nat(6),
  passedMs: fc.nat(3),
  isDelete: fc.nat(9).map((digit) => digit === 0),
});

function createModel(maxEntries: number): BoundedCache<number> {
  let entries: { key: string; value: number; expiresAtMs: number }[] = [];
  const without = (key: string) => entries.filter((entry) => entry.key !== key);
  return {
    get size() {
      return entries.length;
    },
    get(key, nowMs) {
      const found = entries.find((entry) => entry.key === key);
      const alive = found !== undefined && nowMs < found.expiresAtMs ? [found] : [];
      entries = [...without(key), ...alive];
      return alive[0]?.value;
    },
    set(key, value, expiresAtMs) {
      entries = [...without(key), { key, value, expiresAtMs }].slice(-maxEntries);
    },
    delete(key) {
      entries = without(key);
    },
  };
}
