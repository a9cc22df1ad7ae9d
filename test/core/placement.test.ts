// What each region may use of a limit: with a steady split, and while the split changes.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import { hashTagOf } from '../../src/core/counting/keys.ts';
import type { LimitedRule } from '../../src/core/matching/compiled-rule.ts';
import {
  isCentral,
  type PlacedBefore,
  type SharesByRegion,
  type Split,
} from '../../src/core/matching/rule.ts';
import { createPlacements } from '../../src/core/regions/placement.ts';
import { capacityOf, homeOf, isUsable, type Share } from '../../src/core/regions/shares.ts';
import { HEARD_MS } from '../../src/core/regions/terms.ts';
import { createRuleCheck, type RuleCheckShape } from '../limiter/rule-checks.ts';

const AT_MS = 1_800_000_000_000;
const MINUTE = { windowMs: 60_000, limit: 12 } as const;
const EVEN = { us: 1, eu: 1, ap: 1 };
const splitBy = (shares: SharesByRegion, before: Split['before'] = []): Split => ({ shares, before });
const until = (replacedAtMs: number, shares: SharesByRegion) => ({ shares, replacedAtMs });

/** All ways in which the check must be counted at that moment. */
function placementsOf(split: Split, { rule: placed = {}, ...shape }: Shape = {}, nowMs = AT_MS) {
  const { placedBefore = [], ...rule } = placed;
  const check = createRuleCheck({ ...MINUTE, ...shape, rule });
  return createPlacements({ ...split, moved: { [check.rule.id]: placedBefore } }).of(check, nowMs);
}
/** With the former split, as publications record it. */
type Shape = Omit<RuleCheckShape, 'rule'> & {
  readonly rule?: Partial<LimitedRule> & { readonly placedBefore?: readonly PlacedBefore[] };
};
/** The part of each region, by name. */
const allPartsOf = (...given: Parameters<typeof placementsOf>) =>
  placementsOf(...given).map(({ parts }): Record<string, Share> => Object.fromEntries(parts));
/** The parts of the only way. */
function partsOf(...given: Parameters<typeof allPartsOf>) {
  const [parts = {}, ...others] = allPartsOf(...given);
  expect(others).toEqual([]);
  return parts;
}
/** The limits alone. */
const limitsOf = (...given: Parameters<typeof partsOf>) =>
  Object.fromEntries(Object.entries(partsOf(...given)).map(([name, { limit }]) => [name, limit]));
/** A short text for each way: where it counts, and the regions' parts. */
const told = (...given: Parameters<typeof placementsOf>) =>
  placementsOf(...given).map(({ parts, at }) => ({
    at,
    ...Object.fromEntries([...parts].map(([name, { limit }]) => [name, limit])),
  }));
const home = (shares: SharesByRegion, key = '{test}:subject') =>
  homeOf(
    hashTagOf(key),
    Object.entries(shares).map(([name, share]) => ({ name, share })),
  );
const keyAt = (name: string, shares: SharesByRegion) => {
  const keys = Array.from({ length: 1_000 }, (_, i) => `weir:{ip:=${i}}`);
  return keys.find((key) => home(shares, key) === name) ?? '';
};

describe('a limit that a rule has multiplied', () => {
  it('is split with its own burst, whichever rule came first with the same limit', () => {
    const check = createRuleCheck({ ...MINUTE, algorithm: 'token-bucket', extra: 6 });
    const placements = createPlacements(splitBy(EVEN));
    const burstOf = (extra: number) => {
      const [placed] = placements.of({ ...check, extra, full: { limit: 12, extra } }, AT_MS);
      return [...(placed?.parts.values() ?? [])].reduce((sum, part) => sum + (part.extra ?? 0), 0);
    };
    expect([burstOf(6), burstOf(18), burstOf(6)]).toEqual([6, 18, 6]);
  });
});

describe('a limit is split', () => {
  it('as configured, if the rule says nothing else', () => {
    expect(partsOf(splitBy({ us: 2, eu: 1 }))).toEqual({
      us: { limit: 8, extra: undefined },
      eu: { limit: 4, extra: undefined },
    });
  });

  it("by the rule's own shares, whatever is configured", () => {
    const rule = { shares: { eu: 3, ap: 1 } };
    expect(limitsOf(splitBy({ us: 2, eu: 1, ap: 7 }), { rule })).toEqual({ eu: 9, ap: 3 });
  });

  it("by the rule's own shares for those regions that there are", () => {
    const split = splitBy({ us: 2, eu: 1 });
    expect(limitsOf(split, { rule: { shares: { eu: 3, us: 1, mars: 8 } } })).toEqual({ eu: 9, us: 3 });
    expect(limitsOf(split, { rule: { shares: { eu: 3, mars: 8 } } })).toEqual({ eu: 12 });
  });

  it('as configured, if the rule has shares for none of them', () => {
    const split = splitBy({ us: 2, eu: 1 });
    for (const shares of [{ mars: 1 }, { mars: 1, eu: 0 }, {}])
      expect(limitsOf(split, { rule: { shares } })).toEqual({ us: 8, eu: 4 });
  });

  it('with its burst, but not with its number of buckets', () => {
    const split = splitBy({ us: 2, eu: 1 });
    expect(partsOf(split, { algorithm: 'token-bucket', extra: 6 })).toEqual({
      us: { limit: 8, extra: 4 },
      eu: { limit: 4, extra: 2 },
    });
    expect(partsOf(split, { algorithm: 'sliding-window-buckets', extra: 6 })).toEqual({
      us: { limit: 8, extra: 6 },
      eu: { limit: 4, extra: 6 },
    });
  });

  it('for each limit of a tier in the same way', () => {
    const placements = createPlacements(splitBy({ us: 2, eu: 1 }));
    const check = createRuleCheck(MINUTE);
    for (const limit of [12, 30, 3, 12])
      expect(placements.of({ ...check, limit }, AT_MS)[0]?.parts.get('us')?.limit).toBe((limit * 2) / 3);
  });
});

describe('one region has all of a limit', () => {
  const whole = (shape: RuleCheckShape, shares: SharesByRegion = EVEN) =>
    expect(told(splitBy(shares), shape)).toEqual([
      { at: home(shares), [home(shares)]: shape.limit ?? MINUTE.limit },
    ]);

  it('if the rule is central', () => whole({ rule: { central: true } }));

  it('not because its parts are small: those that have none leave it to the others', () => {
    expect(told(splitBy(EVEN), { limit: 2 })).toEqual([{ at: undefined, us: 1, eu: 1 }]);
    expect(told(splitBy(EVEN), { cost: 5 })).toEqual([{ at: undefined, us: 7, eu: 5 }]);
  });

  it('and its parts are the same whatever one check costs: the rule alone decides', () =>
    expect(told(splitBy(EVEN), { cost: 1, rule: { cost: 5 } })).toEqual(told(splitBy(EVEN), { cost: 5 })));

  it.each<[string, RuleCheckShape]>([
    ['holds connections', { algorithm: 'concurrency' }],
    ['has a queue', { algorithm: 'leaky-bucket', rule: { action: 'throttle' } }],
    ['counts denied requests', { rule: { countDenied: true } }],
    ['blocks', { rule: { blockSeconds: 5 } }],
  ])('if the rule %s, unless it keeps to its parts', (_, shape) => {
    const { rule } = createRuleCheck(shape);
    expect([isCentral(rule), isCentral({ ...rule, spill: false })]).toEqual([true, false]);
    expect(Object.keys(partsOf(splitBy(EVEN), shape))).toEqual([home(EVEN)]);
    const kept = { ...shape, rule: { ...shape.rule, spill: false } };
    expect(limitsOf(splitBy(EVEN), kept)).toEqual({ us: 4, eu: 4, ap: 4 });
  });

  it('and another one that of another subject, by the shares', () => {
    for (const name of ['us', 'eu', 'ap'])
      expect(limitsOf(splitBy(EVEN), { key: keyAt(name, EVEN), rule: { central: true } })).toEqual({
        [name]: 12,
      });
    const shares = { us: 0, eu: 1 };
    expect(limitsOf(splitBy(shares), { rule: { central: true } })).toEqual({ eu: 12 });
  });
});

const placedBefore = (...all: PlacedBefore[]) => ({ placedBefore: all });

describe('while a change holds, each region has the smallest of its parts', () => {
  const changed = splitBy({ us: 3, eu: 1 }, [until(AT_MS, { us: 1, eu: 3 })]);

  it.each<[string, RuleCheckShape, number]>([
    ['two windows, and until all have heard of it', {}, HEARD_MS + 120_000],
    [
      'as long, where extra is buckets',
      { algorithm: 'sliding-window-buckets', extra: 50 },
      HEARD_MS + 120_000,
    ],
    [
      'as long, and until four full bursts have drained',
      { algorithm: 'token-bucket', extra: 24 },
      HEARD_MS + 120_000 + 4 * 120_000,
    ],
    [
      'rounded up',
      { algorithm: 'gcra', extra: 7, windowMs: 1_000 },
      HEARD_MS + 2_000 + Math.ceil(28_000 / 12),
    ],
  ])('for %s', (_, shape, heldMs) => {
    expect(limitsOf(changed, shape, AT_MS - 1)).toEqual({ us: 3, eu: 3 });
    expect(limitsOf(changed, shape, AT_MS + heldMs - 1)).toEqual({ us: 3, eu: 3 });
    expect(limitsOf(changed, shape, AT_MS + heldMs)).toEqual({ us: 9, eu: 3 });
  });

  it('of several changes in a row, each for its own time', () => {
    const [first, second] = [AT_MS, AT_MS + 50_000];
    const before = [until(first, { us: 1, eu: 5 }), until(second, { us: 5, eu: 1 })];
    const split = splitBy({ us: 1, eu: 1 }, before);
    const endMs = HEARD_MS + 120_000;
    expect(limitsOf(split, {}, second)).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, {}, first + endMs - 1)).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, {}, first + endMs)).toEqual({ us: 6, eu: 2 });
    expect(limitsOf(split, {}, second + endMs)).toEqual({ us: 6, eu: 6 });
  });

  it('which is none for a region that was added, or removed', () => {
    const added = splitBy({ us: 1, eu: 1, ap: 2 }, [until(AT_MS, { us: 1, eu: 1 })]);
    expect(limitsOf(added)).toEqual({ us: 3, eu: 3 });
    const removed = splitBy({ us: 1, eu: 1 }, [until(AT_MS, EVEN)]);
    expect(limitsOf(removed)).toEqual({ us: 4, eu: 4 });
  });

  it('which is none where no request would fit', () => {
    const split = splitBy({ us: 11, eu: 1 }, [until(AT_MS, { us: 1, eu: 1 })]);
    expect(limitsOf(split, { cost: 1 })).toEqual({ us: 6, eu: 1 });
    expect(limitsOf(splitBy({ us: 3, eu: 1 }, [until(AT_MS, { us: 1, eu: 3 })]), { cost: 3 })).toEqual({
      us: 3,
      eu: 3,
    });
  });

  it('whose buckets say nothing about whether a request fits', () => {
    const shape = { algorithm: 'sliding-window-buckets', extra: 2, cost: 3 } as const;
    expect(partsOf(changed, shape)).toEqual({ us: { limit: 3, extra: 2 }, eu: { limit: 3, extra: 2 } });
  });

  it("of a rule's own shares, if a region of them was removed or added", () => {
    const rule = { shares: { us: 1, eu: 1, ap: 2 } };
    const [two, three] = [
      { us: 5, eu: 1 },
      { us: 1, eu: 1, ap: 1 },
    ];
    for (const split of [splitBy(two, [until(AT_MS, three)]), splitBy(three, [until(AT_MS, two)])])
      expect(limitsOf(split, { rule })).toEqual({ us: 3, eu: 3 });
  });

  it("if both the rule's own shares and the configured ones have changed", () => {
    const rule = placedBefore({ shares: { us: 1, eu: 5 }, central: false, replacedAtMs: AT_MS + 1_000 });
    const split = splitBy({ us: 1, eu: 1 }, [until(AT_MS, { us: 5, eu: 1 })]);
    const endMs = HEARD_MS + 120_000;
    expect(limitsOf(split, { rule })).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, { rule }, AT_MS + endMs)).toEqual({ us: 2, eu: 6 });
    expect(limitsOf(split, { rule }, AT_MS + 1_000 + endMs)).toEqual({ us: 6, eu: 6 });
  });

  it('but not if a change of the configured ones is nothing to a rule that has its own', () => {
    expect(limitsOf(changed, { rule: { shares: { us: 1, eu: 1 } } })).toEqual({ us: 6, eu: 6 });
  });
});

describe('while a rule is moved between all regions and one', () => {
  const endMs = AT_MS + HEARD_MS + 120_000;
  const wasSplit = placedBefore({ shares: null, central: false, replacedAtMs: AT_MS });
  const wasCentral = placedBefore({ shares: null, central: true, replacedAtMs: AT_MS });
  const parts = { us: 4, eu: 4, ap: 4 };

  it('that one alone counts it, and all keep their parts for it', () => {
    const becomesCentral = { central: true, ...wasSplit };
    for (const rule of [becomesCentral, wasCentral])
      for (const nowMs of [AT_MS, endMs - 1])
        expect(told(splitBy(EVEN), { rule }, nowMs)).toEqual([{ at: home(EVEN), ...parts }]);
    expect(told(splitBy(EVEN), { rule: becomesCentral }, endMs)).toEqual([
      { at: home(EVEN), [home(EVEN)]: 12 },
    ]);
    expect(told(splitBy(EVEN), { rule: wasCentral }, endMs)).toEqual([{ at: undefined, ...parts }]);
  });

  it('and its shares change too: with the smaller of both parts', () => {
    const before = placedBefore({ shares: { us: 2, eu: 1 }, central: false, replacedAtMs: AT_MS });
    const middle = { shares: { us: 1, eu: 2 }, central: false, replacedAtMs: AT_MS + 1_000 };
    const rule = { placedBefore: [...before.placedBefore, middle], central: true, shares: { eu: 1 } };
    expect(told(splitBy(EVEN), { rule }, AT_MS + 1_000)).toEqual([{ at: 'eu', us: 4, eu: 4 }]);
  });

  it.each([
    ['of a small limit', { limit: 2 }, null, null, { us: 1, eu: 1 }, 'ap'],
    ['of other regions', {}, { us: 1 }, { eu: 1 }, { us: 12 }, 'eu'],
  ] as const)('that has no part %s, a request must pass by both ways', (_, shape, old, next, split, at) => {
    const key = keyAt(at, next ?? EVEN);
    const whole = 'limit' in shape ? shape.limit : 12;
    const both = [
      { at: undefined, ...split },
      { at, [at]: whole },
    ];
    const becomes = {
      central: true,
      shares: next,
      placedBefore: [{ shares: old, central: false, replacedAtMs: AT_MS }],
    };
    const was = { shares: old, placedBefore: [{ shares: next, central: true, replacedAtMs: AT_MS }] };
    for (const rule of [becomes, was])
      expect(told(splitBy(EVEN), { ...shape, key, rule }, endMs - 1)).toEqual(both);
    expect(told(splitBy(EVEN), { ...shape, key, rule: becomes }, endMs)).toEqual(both.slice(1));
    expect(told(splitBy(EVEN), { ...shape, key, rule: was }, endMs)).toEqual(both.slice(0, 1));
  });

  it('from one region to another, both must admit, and then the new one alone', () => {
    const before = placedBefore({ shares: { us: 1 }, central: true, replacedAtMs: AT_MS });
    const rule = { ...before, central: true, shares: { eu: 1 } };
    const both = [
      { at: 'us', us: 12 },
      { at: 'eu', eu: 12 },
    ];
    expect(told(splitBy(EVEN), { rule }, endMs - 1)).toEqual(both);
    expect(told(splitBy(EVEN), { rule }, endMs)).toEqual(both.slice(1));
  });
});

describe('if a change leaves nothing to anybody, it is counted both ways', () => {
  const moved = splitBy({ eu: 1 }, [until(AT_MS, { us: 1 })]);
  const endMs = AT_MS + HEARD_MS + 120_000;

  it('where one region had all of it, and another one gets it', () => {
    const both = [{ us: { limit: 12, extra: undefined } }, { eu: { limit: 12, extra: undefined } }];
    expect(allPartsOf(moved, {}, endMs - 1)).toEqual(both);
    expect(allPartsOf(moved, {}, endMs)).toEqual(both.slice(1));
  });

  it('where the region of a subject changes, because regions have', () => {
    const [before, after] = [
      { us: 1, eu: 1 },
      { eu: 1, ap: 1 },
    ];
    const key = Array.from({ length: 1_000 }, (_, i) => `weir:{ip:=${i}}`).find(
      (one) => home(before, one) === 'us' && home(after, one) === 'ap',
    );
    const shape = { key: key ?? '', rule: { central: true } };
    const ways = allPartsOf(splitBy(after, [until(AT_MS, before)]), shape);
    expect(ways.map((parts) => Object.keys(parts))).toEqual([['us'], ['ap']]);
  });

  it('and only once where it has come back to the same parts', () => {
    const back = [until(AT_MS, { us: 1 }), until(AT_MS + 1_000, { eu: 1 })];
    const ways = allPartsOf(splitBy({ us: 1 }, back), {}, AT_MS + 1_000);
    expect(ways.map((parts) => Object.keys(parts))).toEqual([['us'], ['eu']]);
  });

  it('and only once, in whatever order the same parts are named', () => {
    const back = [until(AT_MS, { us: 1, eu: 1 }), until(AT_MS + 1_000, { ap: 1 })];
    const ways = allPartsOf(splitBy({ eu: 1, us: 1 }, back), {}, AT_MS + 1_000);
    expect(ways.map((parts) => Object.keys(parts).sort())).toEqual([['eu', 'us'], ['ap']]);
  });

  it('and a queue is short in each of them', () => {
    const rule = { action: 'throttle', maxDelayMs: 10_000, windowSeconds: 60, spill: false } as const;
    const shape = { algorithm: 'leaky-bucket', limit: 60, extra: 60, rule } as const;
    expect(allPartsOf(moved, shape).map((parts) => Object.values(parts)[0]?.extra)).toEqual([11, 11]);
  });
});

it('a queue is as short as its part is slow', () => {
  const rule = { action: 'throttle', maxDelayMs: 10_000, spill: false } as const;
  const shape = {
    algorithm: 'leaky-bucket',
    limit: 60,
    extra: 11,
    rule: { ...rule, windowSeconds: 60 },
  } as const;
  // 10 s at a pace of 40 and of 20 a minute, plus the request whose turn it is.
  expect(partsOf(splitBy({ us: 2, eu: 1 }), shape)).toEqual({
    us: { limit: 40, extra: 7 },
    eu: { limit: 20, extra: 4 },
  });
});

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

const sumOf = (parts: Record<string, Share>, of: 'limit' | 'extra') =>
  names.reduce((sum, name) => sum + (parts[name]?.[of] ?? 0), 0);

it('never has a sum of parts above the limit, by any of the ways', () => {
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

it('keeps isolates with the old parts and isolates with the new parts within both', () => {
  fc.assert(
    fc.property(given, shares, (world, next) => {
      const { present, algorithm, limit, extra, cost, key } = world;
      const shape = { algorithm, limit, extra, cost, key, windowMs: 60_000 };
      const ends = [present, next].map((by) => partsOf(splitBy(by), shape));
      const all = allPartsOf(splitBy(next, [until(AT_MS, present)]), shape);
      const isWithin = (parts: Record<string, Share>, end: Record<string, Share>) =>
        names.every((name) => (parts[name]?.limit ?? 0) <= (end[name]?.limit ?? 0));
      for (const end of ends) expect(all.some((parts) => isWithin(parts, end))).toBe(true);
    }),
    { numRuns: 300 },
  );
});

it('always leaves some region that counts it, by each of the ways', () => {
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

it('never counts a request twice by the same parts', () => {
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
