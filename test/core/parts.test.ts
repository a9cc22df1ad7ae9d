// Parts of a limit: they add up, a request fits into each, and each subject has an owner region.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import { capacityOf } from '../../src/core/counting/capacity.ts';
import {
  centralRegionOf,
  isUsable,
  type Part,
  partsOf,
  splitExactly,
  type WeightedRegion,
} from '../../src/core/regions/parts.ts';
import { counting, isBucket, named, shareList, sum } from './whole-limit.ts';

const total = fc.oneof(fc.nat({ max: 50 }), fc.integer({ min: 0, max: 1e12 }));
const thousandths = fc.oneof(fc.nat({ max: 30 }), fc.nat({ max: 10_000_000 }));
const weights = fc
  .array(thousandths, { minLength: 1, maxLength: 8 })
  .filter((list) => list.some((weight) => weight > 0));

describe('splitExactly', () => {
  it.each([
    [10, [0.1, 0.2, 0.7], [1, 2, 7]],
    [100, [1, 1, 1], [34, 33, 33]],
    [3, [0.5, 0.3, 0.2], [1, 1, 1]],
    [2, [0.3, 0.1], [2, 0]],
    [2, [0.1, 0.3], [1, 1]],
    [1, [0, 0.1], [0, 1]],
    [0, [1, 2], [0, 0]],
    [1e12, [1, 2, 1e-7], [333_333_322_222, 666_666_644_445, 33_333]],
    [7, [1e21, 1e21], [4, 3]],
    [999_999_999_999, [0.1, 0.1, 0.1], [333_333_333_333, 333_333_333_333, 333_333_333_333]],
  ])('splits %d by %j into %j', (whole, by, parts) => {
    expect(splitExactly(whole, by)).toEqual(parts);
  });

  it('gives whole parts that add up, and nothing to a weight of 0', () => {
    fc.assert(
      fc.property(total, weights, (whole, by) => {
        const parts = splitExactly(whole, by);
        expect(sum(parts)).toBe(whole);
        for (const [i, part] of parts.entries()) {
          expect(Number.isInteger(part) && part >= 0).toBe(true);
          if (by[i] === 0) expect(part).toBe(0);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('never makes a part smaller when the total grows', () => {
    fc.assert(
      fc.property(total, fc.nat({ max: 20 }), weights, (whole, more, by) => {
        const [before, after] = [splitExactly(whole, by), splitExactly(whole + more, by)];
        for (const [i, part] of before.entries()) expect(after[i]).toBeGreaterThanOrEqual(part);
      }),
      { numRuns: 1_000 },
    );
  });

  it('reads fractions as decimals', () => {
    fc.assert(
      fc.property(total, weights, (whole, by) => {
        const fractions = by.map((weight) => weight / 1000);
        expect(splitExactly(whole, fractions)).toEqual(splitExactly(whole, by));
      }),
      { numRuns: 1_000 },
    );
  });

  it('adds up for any weights at all', () => {
    const anyWeight = fc.double({ min: 0, noNaN: true, noDefaultInfinity: true });
    fc.assert(
      fc.property(total, fc.array(anyWeight, { minLength: 1, maxLength: 8 }), (whole, by) => {
        fc.pre(by.some((weight) => weight > 0));
        expect(sum(splitExactly(whole, by))).toBe(whole);
      }),
    );
  });

  it('gives a larger weight no less, up to rounding, and equal weights parts that differ by at most 1', () => {
    fc.assert(
      fc.property(total, weights, (whole, by) => {
        const parts = splitExactly(whole, by).map((part, i) => ({ part, weight: by[i] ?? 0 }));
        for (const [i, a] of parts.entries())
          for (const b of parts.slice(i + 1)) {
            if (a.weight > b.weight) expect(a.part).toBeGreaterThanOrEqual(b.part);
            if (a.weight < b.weight) expect(a.part).toBeLessThanOrEqual(b.part + 1);
            if (a.weight === b.weight) expect([0, 1]).toContain(a.part - b.part);
          }
      }),
    );
  });

  it('refuses to split without a weight', () => {
    expect(() => splitExactly(5, [0, 0])).toThrow(RangeError);
    expect(() => splitExactly(5, [])).toThrow(RangeError);
  });
});

describe('partsOf', () => {
  const parts = (...shares: [string, number, number?][]) =>
    new Map<string, Part>(shares.map(([name, limit, extra]) => [name, { limit, extra }]));

  it('gives every region its part of the limit', () => {
    expect(partsOf(counting(), named(0.5, 0.3, 0.2))).toEqual(parts(['r0', 5], ['r1', 3], ['r2', 2]));
  });

  it.each(['token-bucket', 'leaky-bucket', 'gcra'] as const)('splits the burst of %s too', (algorithm) => {
    const rule = counting({ algorithm, extra: 7 });
    expect(partsOf(rule, named(1, 1))).toEqual(parts(['r0', 5, 4], ['r1', 5, 3]));
  });

  it('leaves the number of buckets whole', () => {
    const rule = counting({ algorithm: 'sliding-window-buckets', extra: 2 });
    expect(partsOf(rule, named(1, 1, 1))).toEqual(parts(['r0', 4, 2], ['r1', 3, 2], ['r2', 3, 2]));
  });

  it('leaves out a region without a share', () => {
    expect(partsOf(counting(), named(1, 0, 1))).toEqual(parts(['r0', 5], ['r2', 5]));
  });

  it('leaves out regions when the limit is smaller than their number', () => {
    expect(partsOf(counting({ limit: 2 }), named(1, 1, 1))).toEqual(parts(['r0', 1], ['r1', 1]));
    expect(partsOf(counting({ limit: 1 }), named(1, 1, 3))).toEqual(parts(['r2', 1]));
  });

  it('splits by whole requests', () => {
    expect(partsOf(counting({ cost: 5 }), named(1, 1))).toEqual(parts(['r0', 5], ['r1', 5]));
    expect(partsOf(counting({ limit: 12, cost: 3 }), named(1, 1, 1))).toEqual(
      parts(['r0', 6], ['r1', 3], ['r2', 3]),
    );
    expect(partsOf(counting({ cost: 6 }), named(1, 1))).toEqual(parts(['r0', 10]));
  });

  it('gives no burst to a region without a pace, and no pace to one without a burst', () => {
    expect(partsOf(counting({ limit: 2, extra: 30 }), named(1, 1, 1))).toEqual(
      parts(['r0', 1, 15], ['r1', 1, 15]),
    );
    expect(partsOf(counting({ extra: 2 }), named(1, 1, 1))).toEqual(parts(['r0', 5, 1], ['r1', 5, 1]));
    expect(partsOf(counting({ extra: 4, cost: 3 }), named(1, 2))).toEqual(parts(['r1', 10, 4]));
  });

  it('gives everything to the only region, or to the only region with a share, however small the limit is', () => {
    expect(partsOf(counting({ extra: 7, cost: 20 }), named(0.4))).toEqual(parts(['r0', 10, 7]));
    expect(partsOf(counting({ cost: 20 }), named(0, 2))).toEqual(parts(['r1', 10]));
  });

  it('splits evenly if no region has a share', () => {
    expect(partsOf(counting(), named(0, 0))).toEqual(parts(['r0', 5], ['r1', 5]));
    expect(partsOf(counting(), named(0))).toEqual(parts(['r0', 10]));
  });

  it('adds up to the limit and the burst, in parts that each admit a request', () => {
    const anyCounting = fc.record({
      algorithm: fc.constantFrom(...ALGORITHM_IDS),
      limit: fc.integer({ min: 1, max: 100 }),
      extra: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
      cost: fc.integer({ min: 1, max: 7 }),
    });
    fc.assert(
      fc.property(anyCounting, shareList, (rule, shares) => {
        const all = [...partsOf(rule, named(...shares)).values()];
        expect(sum(all.map(({ limit }) => limit))).toBe(rule.limit);
        const isSplit = isBucket(rule.algorithm) && rule.extra !== undefined;
        if (isSplit) expect(sum(all.map(({ extra = 0 }) => extra))).toBe(rule.extra);
        else for (const { extra } of all) expect(extra).toBe(rule.extra);
        if (capacityOf(rule) >= rule.cost) for (const part of all) expect(isUsable(rule, part)).toBe(true);
        else expect(all).toHaveLength(1);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('centralRegionOf', () => {
  const subjects = Array.from({ length: 10_000 }, (_, i) => `weir:{ip:=10.0.${i >> 8}.${i & 255}}`);
  const owners = (regions: readonly WeightedRegion[]) =>
    subjects.map((subject) => centralRegionOf(subject, regions));
  const countOf = (all: readonly string[], name: string) => all.filter((owner) => owner === name).length;
  const regions = ['us', 'eu', 'ap', 'sa'].map((name, i) => ({ name, share: [4, 3, 2, 1][i] ?? 0 }));

  it('is always the same region for the same subject', () => {
    const keys = ['weir:{user:=ada}', 'weir:{global:=*}', 'weir:{ip:=2001:db8::}', ''];
    expect(keys.map((key) => centralRegionOf(key, regions))).toEqual(['ap', 'sa', 'eu', 'eu']);
  });

  it('is each region in proportion to its share', () => {
    const all = owners(regions);
    const off = regions.map(({ name, share }) => countOf(all, name) - share * 1_000);
    for (const difference of off) expect(Math.abs(difference)).toBeLessThan(100);
  });

  it('does not depend on the order of the regions, nor on the sum of the shares', () => {
    expect(owners(regions.toReversed())).toEqual(owners(regions));
    expect(owners(regions.map(({ name, share }) => ({ name, share: share / 8 })))).toEqual(owners(regions));
  });

  it('moves only the subjects of a region that is removed, and spreads them by the shares', () => {
    const [before, after] = [owners(regions), owners(regions.filter(({ name }) => name !== 'us'))];
    const moved = after.filter((_home, i) => before[i] === 'us');
    expect(after.filter((owner, i) => owner !== before[i])).toEqual(moved);
    const off = ['eu', 'ap', 'sa'].map((name, i) => countOf(moved, name) - ((3 - i) * moved.length) / 6);
    for (const difference of off) expect(Math.abs(difference)).toBeLessThan(100);
  });

  it('moves subjects only to a region that is added, or whose share grows', () => {
    const before = owners(regions);
    const bigger = regions.map((region) => (region.name === 'ap' ? { name: 'ap', share: 5 } : region));
    const changes = { af: [...regions, { name: 'af', share: 2 }], ap: bigger };
    for (const [name, changed] of Object.entries(changes)) {
      const moved = owners(changed).filter((owner, i) => owner !== before[i]);
      expect(moved.length).toBeGreaterThan(1_000);
      expect(new Set(moved)).toEqual(new Set([name]));
    }
  });

  it('is never a region without a share, unless no region has one', () => {
    const without = regions.map(({ name, share }) => ({ name, share: name === 'eu' ? 0 : share }));
    expect(new Set(owners(without))).toEqual(new Set(['us', 'ap', 'sa']));
    expect(owners(without)).toEqual(owners(without.filter(({ name }) => name !== 'eu')));
    expect(owners(named(0, 0))).toEqual(owners(named(1, 1)));
    expect(() => centralRegionOf('anybody', [])).toThrow(RangeError);
  });
});
