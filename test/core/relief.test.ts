// Regions that take over from each other what they have used: together they never admit what the whole limit would
// not, whatever is on its way, arrives late or never. Clocks that go back are not part of this.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ALGORITHM_IDS } from '../../src/core/algorithms/registry.ts';
import { createMemoryCounters } from '../../src/core/memory-counters.ts';
import { rounds } from '../rounds.ts';
import { play } from './transfer-play.ts';
import { createRegions, histories, type Step, split, splitRules } from './transfers.ts';
import { isBucket, type Rule, START_MS } from './whole-limit.ts';

const RELIEVED = ALGORITHM_IDS.filter((id) => id !== 'concurrency');
const BUCKETS = RELIEVED.filter(isBucket);
const NUM_RUNS = rounds(400);

describe.each(RELIEVED)('regions that take over from each other under %s', (algorithm) => {
  it('together admit nothing that the whole limit would not', () => {
    let helped = 0;
    fc.assert(
      fc.property(splitRules(algorithm), histories, (rule, history) => {
        const played = play(rule, history);
        helped += played.helped;
        expect(played.isWithin).toBe(true);
      }),
      { numRuns: NUM_RUNS },
    );
    expect(helped).toBeGreaterThan(NUM_RUNS / 10);
  });
});

const step = (kind: Step['kind'], region: number, changes: Partial<Step> = {}): Step => ({
  kind,
  region,
  wait: 0,
  cost: 1,
  want: 0,
  which: 0,
  ...changes,
});

describe.each(BUCKETS)('%s', (algorithm) => {
  it('is over by no more than what was given back late: that may have drained already', () => {
    fc.assert(
      fc.property(splitRules(algorithm), histories, (rule, history) => {
        expect(play(rule, history, { lateRefunds: true }).isWithin).toBe(true);
      }),
      { numRuns: NUM_RUNS },
    );
  });

  it('keeps the whole limit if what was lent is taken over by a region that drains faster', () => {
    const rule = { algorithm, limit: 220, windowMs: 100, cost: 1 };
    const parts = [10, 10, 200].map((limit) => ({ limit, extra: undefined }));
    const [borrower, slow, fast] = [0, 1, 2];
    const { admitted, isWithin } = play({ rule, parts }, [
      step('take', borrower, { cost: 'all' }),
      step('take', borrower),
      // This one stays on its way.
      step('lend', slow, { cost: 10 }),
      ...[slow, borrower].flatMap((region) => [
        step('take', region),
        step('lend', fast, { cost: 10 }),
        step('arrive', region),
      ]),
      // Everything has drained, everywhere.
      ...[borrower, slow, fast].map((region, i) =>
        step('take', region, { wait: i === 0 ? 10 : 0, cost: 'all' }),
      ),
      step('arrive', borrower, { want: 20 }),
    ]);
    const last = admitted.filter(({ atMs }) => atMs === START_MS + 10);
    expect(last.map(({ units }) => units)).toEqual([10, 10, 200]);
    expect(isWithin).toBe(true);
  });
});

/** Rules and costs whose rooms are whole numbers at every moment: then nothing hides in what is rounded off. */
const wholeRules: fc.Arbitrary<{ rule: Rule; unit: number }> = fc
  .record({
    algorithm: fc.constantFrom(...RELIEVED),
    limit: fc.integer({ min: 4, max: 12 }),
    extra: fc.integer({ min: 4, max: 40 }),
    windowMs: fc.integer({ min: 2, max: 60 }),
    cost: fc.constant(1),
  })
  .map((rule) => {
    if (isBucket(rule.algorithm)) return { rule: { ...rule, windowMs: 1 }, unit: 1 };
    if (rule.algorithm !== 'sliding-window-counter') return { rule, unit: 1 };
    return { rule: { ...rule, limit: rule.limit * 24, windowMs: 4 }, unit: 12 };
  });

const transfers = fc.record({
  before: fc.array(
    fc.record({ place: fc.nat({ max: 1 }), units: fc.integer({ min: 1, max: 6 }), wait: fc.nat({ max: 3 }) }),
    { maxLength: 12 },
  ),
  units: fc.integer({ min: 1, max: 8 }),
  lendMs: fc.nat({ max: 5 }),
  arriveMs: fc.oneof(fc.nat({ max: 5 }), fc.nat({ max: 80 })),
});

describe('a transfer', () => {
  it('gives the borrower no more than the lender was charged, and makes no room in both together', () => {
    let gained = 0;
    const given = fc.record({
      whole: wholeRules,
      by: fc.constantFrom([1, 1], [1, 3], [3, 1]),
      how: transfers,
    });
    fc.assert(
      fc.property(given, ({ whole: { rule, unit }, by, how }) => {
        const found = split(rule, by);
        fc.pre(found !== undefined);
        const [left, right] = [found, found].map((one) => createRegions(one, createMemoryCounters()));
        let nowMs = START_MS;
        for (const { place, units, wait } of how.before) {
          nowMs += wait;
          for (const world of [left, right]) world?.[place]?.run('take', { cost: units * unit }, nowMs);
        }
        const [sinceMs, units] = [nowMs, how.units * unit];
        const lent = right?.[1]?.run('take', { cost: units }, nowMs + how.lendMs);
        fc.pre(lent?.allowed === true);
        nowMs += how.lendMs + how.arriveMs;
        // It can never pass, so that nothing but the relief is seen.
        right?.[0]?.run('take', { cost: 1e6, relief: { units, sinceMs, fullLimit: rule.limit } }, nowMs);
        const lastMs = nowMs + 2 * rule.windowMs + 20;
        for (let atMs = nowMs; atMs <= lastMs; atMs++) {
          const rooms = [left, right].map((world) => (world ?? []).map((region) => region.room(atMs)));
          const [[own = 0, lenders = 0] = [], [after = 0, lendersAfter = 0] = []] = rooms;
          const isGainWithin = after >= own && after - own <= units;
          // Later, a bucket may have more room than without: where it was moved to, it may drain faster.
          const isLater = atMs > nowMs && isBucket(rule.algorithm);
          const isSumWithin = isLater || after + lendersAfter <= own + lenders;
          if (!isGainWithin || !isSumWithin) expect.fail(`${JSON.stringify(rooms)} after ${atMs - nowMs} ms`);
          if (after > own) gained += 1;
        }
      }),
      { numRuns: 5 * NUM_RUNS },
    );
    expect(gained).toBeGreaterThan(NUM_RUNS);
  });
});
