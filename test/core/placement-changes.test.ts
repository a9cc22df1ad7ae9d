// What each region may use of a limit while the split changes.
import { describe, expect, it } from 'vitest';
import type { PlacedBefore } from '../../src/core/matching/rule.ts';
import { OLD_RULES_GONE_MS } from '../../src/core/regions/placement.ts';
import type { RuleCheckShape } from '../limiter/rule-checks.ts';
import {
  AT_MS,
  allPartsOf,
  EVEN,
  keyAt,
  limitsOf,
  owner,
  partsOf,
  splitBy,
  told,
  until,
} from './placed-limits.ts';

const placedBefore = (...all: PlacedBefore[]) => ({ placedBefore: all });

describe('while a change holds, each region has the smallest of its parts', () => {
  const changed = splitBy({ us: 3, eu: 1 }, [until(AT_MS, { us: 1, eu: 3 })]);

  it.each<[string, RuleCheckShape, number]>([
    ['two windows after all isolates have heard of it', {}, OLD_RULES_GONE_MS + 120_000],
    [
      'the same time if the extra is a number of buckets',
      { algorithm: 'sliding-window-buckets', extra: 50 },
      OLD_RULES_GONE_MS + 120_000,
    ],
    [
      'the same time plus the time in which four full bursts drain',
      { algorithm: 'token-bucket', extra: 24 },
      OLD_RULES_GONE_MS + 120_000 + 4 * 120_000,
    ],
    [
      'a time that is rounded up',
      { algorithm: 'gcra', extra: 7, windowMs: 1_000 },
      OLD_RULES_GONE_MS + 2_000 + Math.ceil(28_000 / 12),
    ],
  ])('for %s', (_, shape, heldMs) => {
    expect(limitsOf(changed, shape, AT_MS - 1)).toEqual({ us: 3, eu: 3 });
    expect(limitsOf(changed, shape, AT_MS + heldMs - 1)).toEqual({ us: 3, eu: 3 });
    expect(limitsOf(changed, shape, AT_MS + heldMs)).toEqual({ us: 9, eu: 3 });
  });

  it('through several changes in a row, each for its own time', () => {
    const [first, second] = [AT_MS, AT_MS + 50_000];
    const before = [until(first, { us: 1, eu: 5 }), until(second, { us: 5, eu: 1 })];
    const split = splitBy({ us: 1, eu: 1 }, before);
    const endMs = OLD_RULES_GONE_MS + 120_000;
    expect(limitsOf(split, {}, second)).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, {}, first + endMs - 1)).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, {}, first + endMs)).toEqual({ us: 6, eu: 2 });
    expect(limitsOf(split, {}, second + endMs)).toEqual({ us: 6, eu: 6 });
  });

  it('which is no part at all for a region that was added or removed', () => {
    const added = splitBy({ us: 1, eu: 1, ap: 2 }, [until(AT_MS, { us: 1, eu: 1 })]);
    expect(limitsOf(added)).toEqual({ us: 3, eu: 3 });
    const removed = splitBy({ us: 1, eu: 1 }, [until(AT_MS, EVEN)]);
    expect(limitsOf(removed)).toEqual({ us: 4, eu: 4 });
  });

  it('if a request fits into that part', () => {
    const split = splitBy({ us: 11, eu: 1 }, [until(AT_MS, { us: 1, eu: 1 })]);
    expect(limitsOf(split, { cost: 1 })).toEqual({ us: 6, eu: 1 });
    expect(limitsOf(splitBy({ us: 3, eu: 1 }, [until(AT_MS, { us: 1, eu: 3 })]), { cost: 3 })).toEqual({
      us: 3,
      eu: 3,
    });
  });

  it('even if it has fewer buckets than a request costs', () => {
    const shape = { algorithm: 'sliding-window-buckets', extra: 2, cost: 3 } as const;
    expect(partsOf(changed, shape)).toEqual({ us: { limit: 3, extra: 2 }, eu: { limit: 3, extra: 2 } });
  });

  it("of a rule's own shares, if one of their regions was removed or added", () => {
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
    const endMs = OLD_RULES_GONE_MS + 120_000;
    expect(limitsOf(split, { rule })).toEqual({ us: 2, eu: 2 });
    expect(limitsOf(split, { rule }, AT_MS + endMs)).toEqual({ us: 2, eu: 6 });
    expect(limitsOf(split, { rule }, AT_MS + 1_000 + endMs)).toEqual({ us: 6, eu: 6 });
  });

  it('but not if only the configured shares have changed and the rule has its own', () => {
    expect(limitsOf(changed, { rule: { shares: { us: 1, eu: 1 } } })).toEqual({ us: 6, eu: 6 });
  });
});

describe('while a rule is moved', () => {
  const endMs = AT_MS + OLD_RULES_GONE_MS + 120_000;
  const wasSplit = placedBefore({ shares: null, central: false, replacedAtMs: AT_MS });
  const wasCentral = placedBefore({ shares: null, central: true, replacedAtMs: AT_MS });
  const parts = { us: 4, eu: 4, ap: 4 };

  it('between all regions and one, that region counts it alone, and all regions keep their parts for it', () => {
    const becomesCentral = { central: true, ...wasSplit };
    for (const rule of [becomesCentral, wasCentral])
      for (const nowMs of [AT_MS, endMs - 1])
        expect(told(splitBy(EVEN), { rule }, nowMs)).toEqual([{ at: owner(EVEN), ...parts }]);
    expect(told(splitBy(EVEN), { rule: becomesCentral }, endMs)).toEqual([
      { at: owner(EVEN), [owner(EVEN)]: 12 },
    ]);
    expect(told(splitBy(EVEN), { rule: wasCentral }, endMs)).toEqual([{ at: undefined, ...parts }]);
  });

  it('and its shares change, too, each region keeps the smaller of its parts', () => {
    const before = placedBefore({ shares: { us: 2, eu: 1 }, central: false, replacedAtMs: AT_MS });
    const middle = { shares: { us: 1, eu: 2 }, central: false, replacedAtMs: AT_MS + 1_000 };
    const rule = { placedBefore: [...before.placedBefore, middle], central: true, shares: { eu: 1 } };
    expect(told(splitBy(EVEN), { rule }, AT_MS + 1_000)).toEqual([{ at: 'eu', us: 4, eu: 4 }]);
  });

  it.each([
    ['of a small limit', { limit: 2 }, null, null, { us: 1, eu: 1 }, 'ap'],
    ['because its regions change', {}, { us: 1 }, { eu: 1 }, { us: 12 }, 'eu'],
  ] as const)(
    'to or from a region that has no part %s, a request must be admitted both ways, the old one first',
    (_, shape, old, next, split, at) => {
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
      const whileMoving = (rule: typeof becomes | typeof was) =>
        told(splitBy(EVEN), { ...shape, key, rule }, endMs - 1);
      expect(whileMoving(becomes)).toEqual(both);
      expect(whileMoving(was)).toEqual(both.toReversed());
      expect(told(splitBy(EVEN), { ...shape, key, rule: becomes }, endMs)).toEqual(both.slice(1));
      expect(told(splitBy(EVEN), { ...shape, key, rule: was }, endMs)).toEqual(both.slice(0, 1));
    },
  );

  it('from one region to another, both regions must admit a request, and later the new one alone', () => {
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

describe('if a change leaves no region a part, a request is counted both ways', () => {
  const moved = splitBy({ eu: 1 }, [until(AT_MS, { us: 1 })]);
  const endMs = AT_MS + OLD_RULES_GONE_MS + 120_000;

  it('when the whole limit moves from one region to another', () => {
    const both = [{ us: { limit: 12, extra: undefined } }, { eu: { limit: 12, extra: undefined } }];
    expect(allPartsOf(moved, {}, endMs - 1)).toEqual(both);
    expect(allPartsOf(moved, {}, endMs)).toEqual(both.slice(1));
  });

  it('when the owner of a subject changes because the regions have changed', () => {
    const [before, after] = [
      { us: 1, eu: 1 },
      { eu: 1, ap: 1 },
    ];
    const key = Array.from({ length: 1_000 }, (_, i) => `weir:{ip:=${i}}`).find(
      (one) => owner(before, one) === 'us' && owner(after, one) === 'ap',
    );
    const shape = { key: key ?? '', rule: { central: true } };
    const ways = allPartsOf(splitBy(after, [until(AT_MS, before)]), shape);
    expect(ways.map((parts) => Object.keys(parts))).toEqual([['us'], ['ap']]);
  });

  it('but only once by parts that have come back', () => {
    const back = [until(AT_MS, { us: 1 }), until(AT_MS + 1_000, { eu: 1 })];
    const ways = allPartsOf(splitBy({ us: 1 }, back), {}, AT_MS + 1_000);
    expect(ways.map((parts) => Object.keys(parts))).toEqual([['eu'], ['us']]);
  });

  it('but only once by the same parts in another order', () => {
    const back = [until(AT_MS, { us: 1, eu: 1 }), until(AT_MS + 1_000, { ap: 1 })];
    const ways = allPartsOf(splitBy({ eu: 1, us: 1 }, back), {}, AT_MS + 1_000);
    expect(ways.map((parts) => Object.keys(parts).sort())).toEqual([['ap'], ['eu', 'us']]);
  });

  it('and the queue is short in each region', () => {
    const rule = { action: 'throttle', maxDelayMs: 10_000, windowSeconds: 60, spill: false } as const;
    const shape = { algorithm: 'leaky-bucket', limit: 60, extra: 60, rule } as const;
    expect(allPartsOf(moved, shape).map((parts) => Object.values(parts)[0]?.extra)).toEqual([11, 11]);
  });
});
