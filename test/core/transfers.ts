// Histories of several regions that take over from each other what they have used: takes, refunds, and transfers in
// their three steps, each at a moment of its own, with whatever else happens in between. Clocks do not go back here.
import fc from 'fast-check';
import type { AlgorithmId } from '../../src/core/algorithms/registry.ts';
import type { Check, Outcome } from '../../src/core/check.ts';
import { type Counters, runChecks } from '../../src/core/counters.ts';
import { placementOf, type Share } from '../../src/core/shares.ts';
import { named, type Rule, rules, type Wait, waits } from './whole-limit.ts';

export interface Step {
  /** A take that is denied begins a transfer. `lend` and `arrive` go on with one; what never arrives is lost. */
  readonly kind: 'take' | 'refund' | 'lend' | 'arrive';
  readonly region: number;
  readonly wait: Wait;
  readonly cost: number | 'all';
  readonly want: number;
  /** Which of the transfers, or of the admissions, counted from the last one. */
  readonly which: number;
}

const all = fc.constant('all' as const);

const step = fc.record<Step>({
  kind: fc.constantFrom('take', 'take', 'take', 'refund', 'lend', 'lend', 'arrive', 'arrive'),
  region: fc.nat({ max: 3 }),
  wait: fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.nat({ max: 3 }) },
    { weight: 2, arbitrary: waits },
  ),
  cost: fc.oneof(all, all, fc.constant(1), fc.integer({ min: 1, max: 12 })),
  want: fc.oneof(fc.constant(0), fc.nat({ max: 12 })),
  which: fc.oneof(fc.constant(0), fc.nat({ max: 4 })),
});

/** In the end everybody takes all there is, and then whatever is on its way arrives. */
const finale = (wait: Wait): Step[] => {
  const last = { wait: 0, cost: 'all', want: 100, which: 0 } as const;
  const takes = [0, 1, 2, 3].map((region): Step => ({ ...last, kind: 'take', region }));
  const arrivals = Array.from({ length: 6 }, (): Step => ({ ...last, kind: 'arrive', region: 0 }));
  return [...takes, ...arrivals].map((one, i) => (i === 0 ? { ...one, wait } : one));
};

export const histories: fc.Arbitrary<Step[]> = fc
  .tuple(fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), waits)
  .map(([steps, wait]) => [...steps, ...finale(wait)]);

export interface SplitRule {
  readonly rule: Rule;
  readonly parts: readonly Share[];
}

const weights = fc.array(fc.constantFrom(0.1, 0.25, 0.3, 1, 2, 3.5, 20), { minLength: 2, maxLength: 4 });

export function split(rule: Rule, by: readonly number[]): SplitRule | undefined {
  const placement = placementOf(rule, named(...by));
  return placement.kind === 'split' ? { rule, parts: [...placement.shares.values()] } : undefined;
}

export const splitRules = (algorithm: AlgorithmId): fc.Arbitrary<SplitRule> =>
  fc
    .tuple(rules(algorithm), weights)
    .map(([rule, by]) => split(rule, by))
    .filter((found) => found !== undefined);

export interface Region {
  readonly limit: number;
  run(operation: 'take' | 'peek' | 'refund', changes: Partial<Check>, nowMs: number): Outcome;
  room(nowMs: number): number;
}

/** The counter of each region, under its part of the limit. */
export function createRegions({ rule, parts }: SplitRule, counters: Counters): Region[] {
  return parts.map((part, place) => {
    const check: Check = { key: `r${place}`, id: 'id', ...rule, ...part };
    const run: Region['run'] = (operation, changes, nowMs) => {
      const [outcome] = runChecks(operation, [{ ...check, ...changes }], nowMs, counters).outcomes;
      if (!outcome) throw new Error('a check without an outcome');
      return outcome;
    };
    return { limit: part.limit, run, room: (nowMs) => run('peek', { cost: 1 }, nowMs).remaining };
  });
}
