// What each region may use of a limit, with a steady split.
import { describe, expect, it } from 'vitest';
import { isCentral, type SharesByRegion } from '../../src/core/matching/rule.ts';
import { createPlacements } from '../../src/core/regions/placement.ts';
import { createRuleCheck, type RuleCheckShape } from '../limiter/rule-checks.ts';
import { AT_MS, EVEN, keyAt, limitsOf, MINUTE, owner, partsOf, splitBy, told } from './placed-limits.ts';

describe('a limit that a rule has multiplied', () => {
  it('is split with its own burst, even if the same limit had another burst before', () => {
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
  it('as configured, if the rule has no shares of its own', () => {
    expect(partsOf(splitBy({ us: 2, eu: 1 }))).toEqual({
      us: { limit: 8, extra: undefined },
      eu: { limit: 4, extra: undefined },
    });
  });

  it("by the rule's own shares instead of the configured ones", () => {
    const rule = { shares: { eu: 3, ap: 1 } };
    expect(limitsOf(splitBy({ us: 2, eu: 1, ap: 7 }), { rule })).toEqual({ eu: 9, ap: 3 });
  });

  it("by the rule's own shares, for existing regions only", () => {
    const split = splitBy({ us: 2, eu: 1 });
    expect(limitsOf(split, { rule: { shares: { eu: 3, us: 1, mars: 8 } } })).toEqual({ eu: 9, us: 3 });
    expect(limitsOf(split, { rule: { shares: { eu: 3, mars: 8 } } })).toEqual({ eu: 12 });
  });

  it('as configured, if the rule has shares for no existing region', () => {
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

  it('in the same way for each limit of a tier', () => {
    const placements = createPlacements(splitBy({ us: 2, eu: 1 }));
    const check = createRuleCheck(MINUTE);
    for (const limit of [12, 30, 3, 12])
      expect(placements.of({ ...check, limit }, AT_MS)[0]?.parts.get('us')?.limit).toBe((limit * 2) / 3);
  });
});

describe('one region has all of a limit', () => {
  const whole = (shape: RuleCheckShape, shares: SharesByRegion = EVEN) =>
    expect(told(splitBy(shares), shape)).toEqual([
      { at: owner(shares), [owner(shares)]: shape.limit ?? MINUTE.limit },
    ]);

  it('if the rule is central', () => whole({ rule: { central: true } }));

  it('but not just because parts are small: regions without a part leave the limit to the others', () => {
    expect(told(splitBy(EVEN), { limit: 2 })).toEqual([{ at: undefined, us: 1, eu: 1 }]);
    expect(told(splitBy(EVEN), { cost: 5 })).toEqual([{ at: undefined, us: 7, eu: 5 }]);
  });

  it('but parts depend on the cost of the rule, not on the cost of one check', () =>
    expect(told(splitBy(EVEN), { cost: 1, rule: { cost: 5 } })).toEqual(told(splitBy(EVEN), { cost: 5 })));

  it.each<[string, RuleCheckShape]>([
    ['holds seats', { algorithm: 'concurrency' }],
    ['has a queue', { algorithm: 'leaky-bucket', rule: { action: 'throttle' } }],
    ['counts denied requests', { rule: { countDenied: true } }],
    ['blocks', { rule: { blockSeconds: 5 } }],
  ])('if the rule %s, unless it does not spill', (_, shape) => {
    const { rule } = createRuleCheck(shape);
    expect([isCentral(rule), isCentral({ ...rule, spill: false })]).toEqual([true, false]);
    expect(Object.keys(partsOf(splitBy(EVEN), shape))).toEqual([owner(EVEN)]);
    const kept = { ...shape, rule: { ...shape.rule, spill: false } };
    expect(limitsOf(splitBy(EVEN), kept)).toEqual({ us: 4, eu: 4, ap: 4 });
  });

  it('and another region has the limit of another subject, by the shares', () => {
    for (const name of ['us', 'eu', 'ap'])
      expect(limitsOf(splitBy(EVEN), { key: keyAt(name, EVEN), rule: { central: true } })).toEqual({
        [name]: 12,
      });
    const shares = { us: 0, eu: 1 };
    expect(limitsOf(splitBy(shares), { rule: { central: true } })).toEqual({ eu: 12 });
  });
});

it('a part with a slower pace has a shorter queue', () => {
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
