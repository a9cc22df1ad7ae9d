// What holds for any split of a limit, whatever it was before: parts never add up to more than the limit, and some
// region always counts.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { capacityOf } from '../../src/core/counting/capacity.ts';
import { isUsable, type Part } from '../../src/core/regions/parts.ts';
import { AT_MS, allPartsOf, partsOf, placementsOf, splitBy, told, until } from './placed-limits.ts';

const names = ['us', 'eu', 'ap'] as const;
const shares = fc
  .record({ us: fc.nat({ max: 5 }), eu: fc.nat({ max: 5 }), ap: fc.nat({ max: 5 }) }, { requiredKeys: [] })
  .filter((given) => Object.values(given).some((share) => share > 0));
const ways = fc.array(fc.record({ shares, at: fc.nat({ max: 300_000 }) }), { maxLength: 3 });
const own = fc.record({ shares: fc.option(shares), central: fc.boolean(), at: fc.nat({ max: 300_000 }) });

const given = fc.record({
  algorithm: fc.constantFrom<AlgorithmId>(...ALGORITHM_IDS.filter((id) => id !== 'concurrency')),
  limit: fc.integer({ min: 1, max: 40 }),
  extra: fc.option(fc.integer({ min: 1, max: 40 }), { nil: undefined }),
  cost: fc.integer({ min: 1, max: 3 }),
  present: shares,
  before: ways,
  ownBefore: fc.array(own, { maxLength: 2 }),
  central: fc.boolean(),
  key: fc.nat({ max: 50 }).map((i) => `weir:{ip:=${i}}`),
});

const sumOf = (parts: Record<string, Part>, of: 'limit' | 'extra') =>
  names.reduce((sum, name) => sum + (parts[name]?.[of] ?? 0), 0);

it('the parts of a limit never add up to more than the limit, in any placement', () => {
  const isBurst = (id: AlgorithmId) => ['token-bucket', 'leaky-bucket', 'gcra'].includes(id);
  fc.assert(
    fc.property(given, fc.nat({ max: 800_000 }), (world, afterMs) => {
      const { present, before, ownBefore, central, ...shape } = world;
      const placedBefore = ownBefore.map(({ at, ...way }) => ({ ...way, replacedAtMs: AT_MS + at }));
      const rule = { central, placedBefore };
      const changes = before.map((way) => until(AT_MS + way.at, way.shares));
      const all = allPartsOf(
        splitBy(present, changes),
        { ...shape, windowMs: 60_000, rule },
        AT_MS + afterMs,
      );
      expect(all.length).toBeGreaterThan(0);
      for (const parts of all) {
        expect(sumOf(parts, 'limit')).toBeLessThanOrEqual(shape.limit);
        if (isBurst(shape.algorithm) && shape.extra !== undefined)
          expect(sumOf(parts, 'extra')).toBeLessThanOrEqual(shape.extra);
      }
    }),
    { numRuns: 300 },
  );
});

it('during a change, some placement is within the old parts, and some within the new parts', () => {
  fc.assert(
    fc.property(given, shares, (world, next) => {
      const { present, algorithm, limit, extra, cost, key } = world;
      const shape = { algorithm, limit, extra, cost, key, windowMs: 60_000 };
      const ends = [present, next].map((by) => partsOf(splitBy(by), shape));
      const all = allPartsOf(splitBy(next, [until(AT_MS, present)]), shape);
      const isWithin = (parts: Record<string, Part>, end: Record<string, Part>) =>
        names.every((name) => (parts[name]?.limit ?? 0) <= (end[name]?.limit ?? 0));
      for (const end of ends) expect(all.some((parts) => isWithin(parts, end))).toBe(true);
    }),
    { numRuns: 300 },
  );
});

it('in each placement, some region can count a request', () => {
  fc.assert(
    fc.property(given, fc.nat({ max: 800_000 }), (world, afterMs) => {
      const { present, before, ownBefore, central, ...shape } = world;
      const placedBefore = ownBefore.map(({ at, ...way }) => ({ ...way, replacedAtMs: AT_MS + at }));
      const changes = before.map((way) => until(AT_MS + way.at, way.shares));
      const check = { ...shape, windowMs: 60_000, rule: { central, placedBefore } };
      for (const { parts, at } of placementsOf(splitBy(present, changes), check, AT_MS + afterMs)) {
        const counted = at === undefined ? [...parts.values()] : [parts.get(at)];
        const isPossible = counted.some((part) => part && isUsable({ ...check }, part));
        expect(isPossible || capacityOf(check) < check.cost).toBe(true);
      }
    }),
    { numRuns: 500 },
  );
});

it('a request is never counted twice by the same parts', () => {
  fc.assert(
    fc.property(given, fc.nat({ max: 800_000 }), (world, afterMs) => {
      const { present, before, ownBefore, central, ...shape } = world;
      const placedBefore = ownBefore.map(({ at, ...way }) => ({ ...way, replacedAtMs: AT_MS + at }));
      const changes = before.map((way) => until(AT_MS + way.at, way.shares));
      const rule = { central, placedBefore };
      const all = told(splitBy(present, changes), { ...shape, windowMs: 60_000, rule }, AT_MS + afterMs);
      expect(new Set(all.map((one) => JSON.stringify(one))).size).toBe(all.length);
    }),
    { numRuns: 300 },
  );
});
