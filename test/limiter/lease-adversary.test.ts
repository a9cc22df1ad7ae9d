// Isolates lease any number of units and use them at any time. All their admissions together follow the definition of
// the algorithm.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findBeyond } from '../../local/simulator/ledger.ts';
import { idsWith } from '../../src/core/counting/algorithms/registry.ts';
import { rounds } from '../rounds.ts';
import { type LeaseWorld, playLeases } from './lease-world.ts';
import { createRuleCheck } from './rule-checks.ts';

const LEASED = idsWith(({ leaseCellMs }) => leaseCellMs !== undefined);

const world = {
  seed: fc.integer(),
  isolates: fc.integer({ min: 1, max: 4 }),
  skewMs: fc.constantFrom(0, 200, 5_000),
  longestWayMs: fc.constantFrom(0, 3, 40),
  lossRate: fc.constantFrom(0, 0, 0.05, 0.3),
  limit: fc.integer({ min: 200, max: 4_000 }),
  windowMs: fc.constantFrom(1_000, 2_000, 5_000),
  cost: fc.constantFrom(1, 1, 3),
};

it('only algorithms that cut time into windows or buckets are leased', () => {
  expect(LEASED).toEqual(['fixed-window', 'sliding-window-counter', 'sliding-window-buckets']);
});

describe.each(LEASED)('isolates that lease units of %s', (algorithm) => {
  const check = ({ limit, windowMs, cost }: Drawn) =>
    createRuleCheck({ algorithm, limit, windowMs, cost, rule: { lease: true } });

  const beyond = (drawn: Drawn) => {
    const { admissions, leased } = playLeases({ ...drawn, check: check(drawn), lastsMs: 8_000 });
    const counted = { algorithm, windowMs: drawn.windowMs, boundMs: 0, forgettings: [] };
    return { beyond: findBeyond(counted, admissions), leased };
  };

  it('never admit more than the definition allows', () =>
    fc.assert(
      fc.property(fc.record(world), (drawn) => {
        expect(beyond(drawn).beyond).toBeUndefined();
      }),
      { numRuns: rounds(15), endOnFailure: true },
    ));

  it('use hundreds of units from memory', () => {
    expect(beyond(ROOMY).leased).toBeGreaterThan(300);
  });
});

const ROOMY = {
  ...{ seed: 1, isolates: 2, skewMs: 200, longestWayMs: 3, lossRate: 0 },
  ...{ limit: 4_000, windowMs: 5_000, cost: 1 },
};

type Drawn = Omit<LeaseWorld, 'check' | 'lastsMs'> & {
  readonly limit: number;
  readonly windowMs: number;
  readonly cost: number;
};
