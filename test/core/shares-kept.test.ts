// Regions which keep to their parts of a limit together keep the whole limit; also while the split is being changed.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import type { Check } from '../../src/core/check.ts';
import { runChecks } from '../../src/core/counters.ts';
import {
  type Counting,
  homeOf,
  placementOf,
  type Share,
  transitionalShares,
  type WeightedRegion,
} from '../../src/core/shares.ts';
import {
  type Admission,
  counting,
  createExpiringCounters,
  DEFINITIONS,
  isBucket,
  named,
  type Rule,
  rules,
  START_MS,
  shareList,
  sum,
  unitsOf,
  type Wait,
  waitMs,
  waits,
} from './whole-limit.ts';

interface Step {
  readonly region: number;
  readonly wait: Wait;
  readonly cost: number | 'all';
  readonly late: boolean;
}

const steps = fc.array(
  fc.record<Step>({
    region: fc.nat({ max: 20 }),
    wait: waits,
    cost: fc.oneof(fc.constant('all' as const), fc.constant(1), fc.integer({ min: 1, max: 6 })),
    late: fc.boolean(),
  }),
  { minLength: 1, maxLength: 40 },
);

/** Each region has counters of its own; `shareAt` says by which share a request is counted. */
function play(
  rule: Rule,
  history: readonly Step[],
  shareAt: (step: Step, atMs: number) => [string, Share] | undefined,
): Admission[] {
  const admitted: Admission[] = [];
  let atMs = START_MS;
  const counters = createExpiringCounters(() => atMs);
  for (const [i, step] of history.entries()) {
    atMs += waitMs(step.wait, rule.windowMs, atMs);
    const [name, share] = shareAt(step, atMs) ?? [];
    if (name === undefined || share === undefined) continue;
    const leaseId = String(i).padStart(16, '0');
    const check: Check = { key: name, id: 'id', ...rule, ...share, leaseId };
    const left = runChecks('peek', [check], atMs, counters).outcomes[0]?.remaining ?? 0;
    const units = step.cost === 'all' ? Math.max(1, left) : step.cost;
    const { outcomes } = runChecks('take', [{ ...check, cost: units }], atMs, counters);
    if (outcomes[0]?.allowed) admitted.push({ atMs, units });
  }
  return admitted;
}

function expectWithin(rule: Rule, admitted: readonly Admission[]): void {
  admitted.forEach(({ atMs }, i) => {
    expect(DEFINITIONS[rule.algorithm](admitted.slice(0, i + 1), atMs, rule)).toBe(true);
  });
}

describe.each(ALGORITHM_IDS)('regions that keep to their shares of %s', (algorithm) => {
  it('together admit nothing that the whole limit would not', () => {
    fc.assert(
      fc.property(rules(algorithm), shareList, steps, (rule, shares, history) => {
        const placement = placementOf(rule, named(...shares));
        fc.pre(placement.kind === 'split');
        const parts = [...placement.shares];
        expectWithin(
          rule,
          play(rule, history, ({ region }) => parts[region % parts.length]),
        );
      }),
      { numRuns: 400 },
    );
  });

  it('together admit all of it at once', () => {
    fc.assert(
      fc.property(rules(algorithm), shareList, (rule, shares) => {
        const placement = placementOf(rule, named(...shares));
        fc.pre(placement.kind === 'split');
        const parts = [...placement.shares];
        const history = parts.map((_part, region): Step => ({ region, wait: 0, cost: 'all', late: false }));
        const admitted = unitsOf(play(rule, history, ({ region }) => parts[region]));
        expect(admitted).toBe(isBucket(algorithm) ? (rule.extra ?? rule.limit) : rule.limit);
      }),
    );
  });
});

/** Until what was admitted by these shares no longer counts. */
function pastAfterMs({ algorithm, windowMs }: Rule, shares: ReadonlyMap<string, Share>): number {
  if (!isBucket(algorithm)) return 2 * windowMs;
  const fillsMs = ({ limit, extra = limit }: Share) => Math.ceil((extra * windowMs) / limit);
  return Math.max(...[...shares.values()].map(fillsMs));
}

describe('transitionalShares', () => {
  const subjectKey = 'weir:{user:=ada}';
  const parts = (rule: Counting, before: readonly WeightedRegion[], after: readonly WeightedRegion[]) =>
    Object.fromEntries(transitionalShares({ ...rule, subjectKey }, before, after));

  it('gives each region the smaller of its parts, of the limit and of the burst', () => {
    expect(parts(counting({ extra: 20 }), named(5, 3, 2), named(2, 2, 6))).toEqual({
      r0: { limit: 2, extra: 4 },
      r1: { limit: 2, extra: 4 },
      r2: { limit: 2, extra: 4 },
    });
    expect(parts(counting(), named(1, 1), named(1, 1))).toEqual({
      r0: { limit: 5, extra: undefined },
      r1: { limit: 5, extra: undefined },
    });
  });

  it('gives nothing to a region that comes, or goes', () => {
    expect(Object.keys(parts(counting(), named(1, 1), named(1, 1, 1)))).toEqual(['r0', 'r1']);
    expect(Object.keys(parts(counting(), named(1, 1, 1), named(1, 0, 1)))).toEqual(['r0', 'r2']);
    expect(parts(counting(), named(1), [{ name: 'other', share: 1 }])).toEqual({});
  });

  it('leaves a subject to its home when it was, or will be, counted there', () => {
    const rule = counting({ limit: 12, cost: 4 });
    const home = homeOf(subjectKey, named(1, 1, 1, 1));
    expect(placementOf(rule, named(1, 1, 1, 1)).kind).toBe('central');
    expect(placementOf(rule, named(1, 1, 1)).kind).toBe('split');
    const expected = home === 'r3' ? {} : { [home]: { limit: 4, extra: undefined } };
    expect(parts(rule, named(1, 1, 1, 1), named(1, 1, 1))).toEqual(expected);
    expect(parts(rule, named(1, 1, 1), named(1, 1, 1, 1))).toEqual(expected);
    expect(parts({ ...rule, cost: 7 }, named(1, 1), named(1, 1))).toEqual({
      [homeOf(subjectKey, named(1, 1))]: { limit: 12, extra: undefined },
    });
  });

  it('never gives more than the limit and the burst in all, nor any region more than before or after', () => {
    const anyCounting = fc.record({
      algorithm: fc.constantFrom(...ALGORITHM_IDS),
      limit: fc.integer({ min: 1, max: 100 }),
      extra: fc.option(fc.integer({ min: 1, max: 100 }), { nil: undefined }),
      cost: fc.integer({ min: 1, max: 5 }),
    });
    fc.assert(
      fc.property(anyCounting, shareList, shareList, (rule, before, after) => {
        const given = Object.values(parts(rule, named(...before), named(...after)));
        expect(sum(given.map(({ limit }) => limit))).toBeLessThanOrEqual(rule.limit);
        if (isBucket(rule.algorithm) && rule.extra !== undefined)
          expect(sum(given.map(({ extra = 0 }) => extra))).toBeLessThanOrEqual(rule.extra);
        for (const { limit, extra } of given) {
          expect(limit).toBeGreaterThan(0);
          if (extra !== undefined) expect(extra).toBeGreaterThan(0);
        }
        expect(parts(rule, named(...after), named(...before))).toEqual(
          parts(rule, named(...before), named(...after)),
        );
      }),
      { numRuns: 500 },
    );
  });

  it.each(ALGORITHM_IDS)(
    'keeps the whole limit of %s while some still go by the old split, and once that is past, some by the new one',
    (algorithm) => {
      const changes = fc.record({ before: shareList, after: shareList, untilMs: fc.nat({ max: 200 }) });
      fc.assert(
        fc.property(rules(algorithm), changes, steps, (rule, { before, after, untilMs }, history) => {
          const [old, next] = [before, after].map((shares) => placementOf(rule, named(...shares)));
          fc.pre(old?.kind === 'split' && next?.kind === 'split');
          const between = transitionalShares({ ...rule, subjectKey }, named(...before), named(...after));
          const admitted = play(rule, history, ({ region, late }, atMs) => {
            const isOld = atMs < START_MS + untilMs;
            const isNew = atMs >= START_MS + untilMs + pastAfterMs(rule, old.shares);
            const shares = late || !(isOld || isNew) ? between : isOld ? old.shares : next.shares;
            const name = `r${region % 4}`;
            const share = shares.get(name);
            return share && [name, share];
          });
          expectWithin(rule, admitted);
        }),
        { numRuns: 400 },
      );
    },
  );

  // Where limits change: what passed before has drained by the old limit, or a counter would be given more.
  const changes = fc.record({
    limit: fc.integer({ min: 10, max: 60 }),
    extra: fc.integer({ min: 4, max: 30 }),
    windowMs: fc.constantFrom(40, 60),
    before: fc.tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 20 })),
    after: fc.tuple(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 20 })),
  });

  describe.each(ALGORITHM_IDS)('%s', (algorithm) => {
    it('keeps the whole limit through a change though everybody takes all there is, at every moment', () => {
      fc.assert(
        fc.property(changes, ({ before, after, ...shape }) => {
          const rule = { ...shape, algorithm, cost: 1 };
          const [old, next] = [before, after].map((shares) => placementOf(rule, named(...shares)));
          fc.pre(old?.kind === 'split' && next?.kind === 'split');
          const between = transitionalShares({ ...rule, subjectKey }, named(...before), named(...after));
          const newFromMs = pastAfterMs(rule, old.shares);
          const everyMs = Array.from({ length: newFromMs + 30 }, (_, i) => i).flatMap((afterMs) =>
            [0, 1].map(
              (region): Step => ({
                region,
                wait: afterMs > 0 && region === 0 ? 1 : 0,
                cost: 'all',
                late: false,
              }),
            ),
          );
          const admitted = play(rule, everyMs, ({ region }, atMs) => {
            const afterMs = atMs - START_MS;
            const shares = afterMs === 0 ? old.shares : afterMs < newFromMs ? between : next.shares;
            const share = shares.get(`r${region}`);
            return share && [`r${region}`, share];
          });
          expectWithin(rule, admitted);
        }),
        { numRuns: 100 },
      );
    });
  });
});
