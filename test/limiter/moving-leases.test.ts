// While a rule moves, old and new placement both count. A lease has charged one of them only, so it cannot pay for both.
import { describe, expect, it } from 'vitest';
import { isBeingMoved } from '../../src/core/regions/placement.ts';
import { place } from './placed.ts';

const earlier = { shares: { us: 1, eu: 1, ap: 1 }, replacedAtMs: null };
const shares = { us: 1, eu: 3, ap: 1 };

describe('a rule is being moved', () => {
  const central = place({ eu: 9 }, { at: 'eu' });
  const { id } = central.check.rule;

  it('if it is central and the shares have changed, because they choose its region', () => {
    expect(isBeingMoved({ ...central, split: { shares, before: [earlier] } })).toBe(true);
  });

  it('if the rule itself was placed otherwise before', () => {
    const placedBefore = [{ shares: null, central: false, replacedAtMs: null }];
    const splitOf = (rule: string) => ({ shares, before: [], moved: { [rule]: placedBefore } });
    expect(isBeingMoved({ ...central, split: splitOf(id) })).toBe(true);
    expect(isBeingMoved({ ...central, split: splitOf(`another than ${id}`) })).toBe(false);
  });

  it('neither if nothing has changed, nor if new shares only change its parts', () => {
    expect(isBeingMoved(central)).toBe(false);
    expect(isBeingMoved({ ...place({ us: 3, eu: 3 }), split: { shares, before: [earlier] } })).toBe(false);
  });
});
