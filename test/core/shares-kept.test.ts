// Regions that each keep to their part of a limit together keep the whole limit, even while the parts change.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/counting/algorithms/registry.ts';
import type { Check } from '../../src/core/counting/check.ts';
import { runChecks } from '../../src/core/counting/counters.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { SharesByRegion } from '../../src/core/matching/rule.ts';
import { type Part, partsOf } from '../../src/core/regions/parts.ts';
import { createPlacements, OLD_RULES_GONE_MS, type Placement } from '../../src/core/regions/placement.ts';
import { createRuleCheck } from '../limiter/rule-checks.ts';
import { rounds } from '../rounds.ts';
import {
  type Admission,
  createExpiringCounters,
  DEFINITIONS,
  isBucket,
  named,
  type Rule,
  rules,
  START_MS,
  shareList,
  unitsOf,
  type Wait,
  waitMs,
  waits,
} from './whole-limit.ts';

interface Step {
  readonly region: number;
  readonly wait: Wait;
  readonly cost: number | 'all';
}

/** The regions that count a request, each with its part. Either all of them admit the request, or none is charged. */
type Counted = readonly (readonly [region: string, part: Part])[];

const steps = fc.array(
  fc.record<Step>({
    region: fc.nat({ max: 20 }),
    wait: waits,
    cost: fc.oneof(fc.constant('all' as const), fc.constant(1), fc.integer({ min: 1, max: 6 })),
  }),
  { minLength: 1, maxLength: 40 },
);

/** Each region has its own counters. */
function createWorld(rule: Rule) {
  const admitted: Admission[] = [];
  let atMs = START_MS;
  let seats = 0;
  const counters = createExpiringCounters(() => atMs);
  const run = (operation: 'peek' | 'take', check: Check) =>
    runChecks(operation, [check], atMs, counters).outcomes[0];
  return {
    admitted,
    now: () => atMs,
    pass(ms: number) {
      atMs += Math.max(0, ms);
    },
    take(counted: Counted, cost: number | 'all') {
      seats += 1;
      const seatId = String(seats).padStart(16, '0');
      const checks = counted.map(
        ([name, part]): Check => ({ key: name, id: 'id', ...rule, ...part, seatId }),
      );
      const left = Math.min(...checks.map((check) => run('peek', check)?.remaining ?? 0));
      const units = cost === 'all' ? Math.max(1, left) : cost;
      if (checks.length === 0 || left < units) return;
      for (const check of checks) run('take', { ...check, cost: units });
      admitted.push({ atMs, units });
    },
  };
}

function expectWithin(rule: Rule, admitted: readonly Admission[]): void {
  admitted.forEach(({ atMs }, i) => {
    expect(DEFINITIONS[rule.algorithm](admitted.slice(0, i + 1), atMs, rule)).toBe(true);
  });
}

describe.each(ALGORITHM_IDS)('regions that keep to their parts of %s', (algorithm) => {
  it('together admit no more than the whole limit', () => {
    fc.assert(
      fc.property(rules(algorithm), shareList, steps, (rule, shares, history) => {
        const parts = [...partsOf(rule, named(...shares))];
        const world = createWorld(rule);
        for (const { region, wait, cost } of history) {
          world.pass(waitMs(wait, rule.windowMs, world.now()));
          world.take([parts[region % parts.length] ?? ['r0', { limit: 1, extra: 1 }]], cost);
        }
        expectWithin(rule, world.admitted);
      }),
      { numRuns: rounds(200) },
    );
  });

  it('admit no more than the largest limit of a subject whose requests have different limits', () => {
    const limited = fc.record({
      step: steps,
      limits: fc.array(fc.integer({ min: 4, max: 40 }), { minLength: 1 }),
    });
    fc.assert(
      fc.property(rules(algorithm), shareList, limited, (whole, shares, { step: history, limits }) => {
        // A rule with limits of claims has no burst beside them.
        const rule = isBucket(algorithm) ? { ...whole, extra: undefined } : whole;
        const world = createWorld(rule);
        for (const [i, { region, wait, cost }] of history.entries()) {
          const limit = Math.min(rule.limit, limits[i % limits.length] ?? rule.limit);
          const parts = [...partsOf({ ...rule, limit }, named(...shares))];
          world.pass(waitMs(wait, rule.windowMs, world.now()));
          world.take([parts[region % parts.length] ?? ['r0', { limit: 1, extra: 1 }]], cost);
        }
        expectWithin(rule, world.admitted);
      }),
      { numRuns: rounds(200) },
    );
  });

  it('together admit the whole limit at once', () => {
    fc.assert(
      fc.property(rules(algorithm), shareList, (rule, shares) => {
        const world = createWorld(rule);
        for (const part of partsOf(rule, named(...shares))) world.take([part], 'all');
        const whole = isBucket(algorithm) ? (rule.extra ?? rule.limit) : rule.limit;
        expect(unitsOf(world.admitted)).toBe(whole);
      }),
    );
  });
});

interface Way {
  readonly shares: SharesByRegion;
  readonly central: boolean;
}

const way: fc.Arbitrary<Way> = fc.record({
  shares: fc
    .record({ us: fc.nat({ max: 5 }), eu: fc.nat({ max: 5 }), ap: fc.nat({ max: 5 }) })
    .filter((shares) => Object.values(shares).some((share) => share > 0)),
  central: fc.boolean(),
});

/** How long after the change a request comes. It never comes before an earlier request. */
type When = number | 'some have not heard' | 'all have heard' | 'nearly over' | 'over';

interface Moment extends Step {
  readonly when: When;
  /** Whether this isolate has not heard of the change yet. */
  readonly isLate: boolean;
}

const moment = fc.record<Moment>({
  region: fc.nat({ max: 20 }),
  wait: waits,
  cost: fc.oneof(fc.constant('all' as const), fc.constant(1)),
  when: fc.oneof(
    { weight: 8, arbitrary: fc.constant(0) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('some have not heard' as const, 'all have heard', 'nearly over', 'over'),
    },
  ),
  isLate: fc.boolean(),
});

const ALL_REGIONS = { us: 1, eu: 1, ap: 1 };

/** The check by the old rule, the check by the new rule, and where the rule was placed before. */
function checksOf(rule: Rule, before: Way, after: Way) {
  const shape = { ...rule, key: 'weir:{user:=ada}', windowMs: rule.windowMs };
  const placedBefore = [{ ...before, replacedAtMs: START_MS }];
  return {
    old: createRuleCheck({ ...shape, rule: { ...before, spill: false } }),
    next: createRuleCheck({ ...shape, rule: { ...after, spill: false } }),
    placedBefore,
  };
}

/** Where a request at that place is counted. Of two ways in one region, the stricter one counts. */
function countedBy(placements: readonly Placement[], place: number): Counted {
  const all = placements.flatMap(({ parts, at }) => {
    const names = at === undefined ? [...parts.keys()] : [at];
    const name = names[place % names.length] ?? '';
    return [[name, parts.get(name) ?? { limit: 0, extra: 0 }] as const];
  });
  return all.filter(([name, { limit }], i) =>
    all.every(
      ([other, part], j) =>
        i === j || other !== name || limit < part.limit || (limit === part.limit && i < j),
    ),
  );
}

describe.each(ALGORITHM_IDS)('while the split of %s changes', (algorithm) => {
  it('isolates never admit more than the limit, whether or not they have heard of the change', () => {
    fc.assert(
      fc.property(
        rules(algorithm),
        way,
        way,
        fc.array(moment, { minLength: 1, maxLength: 60 }),
        (rule, before, after, history) => {
          const { old, next, placedBefore } = checksOf(rule, before, after);
          const split = { shares: ALL_REGIONS, before: [] };
          const ways = {
            old: createPlacements(split),
            next: createPlacements({ ...split, moved: { [next.rule.id]: placedBefore } }),
          };
          const placed = (check: RuleCheck, atMs: number) =>
            (check === next ? ways.next : ways.old).of(check, atMs);
          const world = createWorld(rule);
          const overMs = heldMs(rule);
          const times = {
            'some have not heard': OLD_RULES_GONE_MS - 1,
            'all have heard': OLD_RULES_GONE_MS,
            'nearly over': overMs - 1,
            over: overMs,
          };
          for (const { region, wait, cost, when, isLate } of history) {
            const atMs = START_MS + (typeof when === 'number' ? when : times[when]);
            world.pass(atMs - world.now());
            world.pass(waitMs(wait, rule.windowMs, world.now()));
            const hasHeard = !isLate || world.now() >= START_MS + OLD_RULES_GONE_MS;
            const counted = countedBy(placed(hasHeard ? next : old, world.now()), region);
            world.take(counted, cost);
          }
          expectWithin(rule, world.admitted);
        },
      ),
      { numRuns: rounds(200) },
    );
  });
});

/** As in docs/regions.md: until every isolate knows the change, two windows, and until four full bursts drain. */
function heldMs({ algorithm, windowMs, limit, extra = 0 }: Rule): number {
  const burst = isBucket(algorithm) ? extra : 0;
  return OLD_RULES_GONE_MS + 2 * windowMs + Math.ceil((4 * windowMs * burst) / limit);
}
