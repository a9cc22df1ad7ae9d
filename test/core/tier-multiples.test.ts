import { describe, expect, it } from 'vitest';
import { resolveTiers } from '../../src/authoring/tier-schema.ts';
import type { WrittenTierLimits } from '../../src/core/matching/rule.ts';

const resolve = (tiers: Readonly<Record<string, WrittenTierLimits>>) =>
  Object.fromEntries(
    resolveTiers(Object.entries(tiers).map(([name, limits]) => ({ name, limits, isDefault: false }))).map(
      ({ tier, problems }) => [tier.name, problems.length > 0 ? problems : tier.limits],
    ),
  );

describe('a limit of a tier', () => {
  it('can be a multiple of the limit of another tier, which can be a multiple, too', () => {
    expect(
      resolve({
        scale: { calls: { times: 10, of: 'team' } },
        team: { calls: { times: 10, of: 'free' }, exports: 7 },
        free: { calls: 5 },
      }),
    ).toEqual({ scale: { calls: 500 }, team: { calls: 50, exports: 7 }, free: { calls: 5 } });
  });

  it('is unlimited if the limit of the other tier is', () => {
    expect(resolve({ team: { calls: { times: 2, of: 'free' } }, free: { calls: null } })).toEqual({
      team: { calls: null },
      free: { calls: null },
    });
  });

  it.each<[string, Readonly<Record<string, WrittenTierLimits>>, string]>([
    ['no such tier', { a: { calls: { times: 2, of: 'gone' } } }, 'limits.calls: there is no tier gone'],
    [
      'no such limit',
      { a: { calls: { times: 2, of: 'b' } }, b: {} },
      'limits.calls: tier b has no limit of this name',
    ],
    ['a circle', { a: { calls: { times: 2, of: 'a' } } }, 'limits.calls: goes in a circle: a, a'],
    [
      'too large a product',
      { a: { calls: { times: 1_000_000, of: 'b' } }, b: { calls: 1_000_001 } },
      'limits.calls: would be 1000001000000, which is too large',
    ],
  ])('is left out, with the reason: %s', (_, tiers, problem) => {
    expect(resolve(tiers)['a']).toEqual([problem]);
  });

  it('that is left out does not affect the others', () => {
    const [resolved] = resolveTiers([
      { name: 'a', limits: { calls: { times: 2, of: 'gone' }, exports: 3 }, isDefault: true },
    ]);
    expect(resolved?.tier).toEqual({ name: 'a', limits: { exports: 3 }, isDefault: true });
  });
});
