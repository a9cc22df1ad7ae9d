// Whatever regions transfer to one another, whenever callers come, and whatever is lost on the way: all regions together
// never admit more than the limit. The real code, on counters in memory, in fake time.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ALGORITHM_IDS, type AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { SharesByRegion } from '../../src/core/matching/rule.ts';
import { createPlacer } from '../../src/core/regions/placement.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { type Admission, DEFINITIONS, isBucket } from '../core/whole-limit.ts';
import { rounds } from '../rounds.ts';
import { createCountingIsolate } from './counting-isolate.ts';
import { createRandom } from './denial-systems.ts';
import { hangs, START_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { createRuleCheck } from './rule-checks.ts';

useFakeTime();
const now = () => Date.now();

/** Some requests at once in one region, and the time until the next ones. */
interface Step {
  readonly region: number;
  readonly isolate: number;
  readonly requests: number;
  readonly waitMs: number;
}

interface World {
  readonly seed: number;
  readonly check: RuleCheck;
  readonly shares: SharesByRegion;
  readonly history: readonly Step[];
  /** The longest one-way trip to a region. */
  readonly longestMs: number;
  /** The fraction of calls, or of their answers, that is lost. */
  readonly lost: number;
}

/** Half of the lost calls never arrive. The other half arrive, but their answers are lost. */
function looseCalls(region: ModelRegion, lost: number, random: () => number): void {
  const { run } = region.does;
  region.does.run = async (call, signal) => {
    const chance = random();
    if (chance < lost / 2) return hangs(signal);
    const answered = run(call, signal);
    return chance < lost ? answered.then(() => hangs(signal)) : answered;
  };
}

/** Returns all admissions, by the clock of the counters. */
async function play({ seed, check, shares, history, longestMs, lost }: World) {
  vi.setSystemTime(START_MS);
  const random = createRandom(seed);
  const regions = ['us', 'eu', 'ap'].map((name) =>
    createModelRegion(name, () => Math.floor(random() * (longestMs + 1))),
  );
  for (const region of regions) looseCalls(region, lost, random);
  const isolates = [0, 1, 2].flatMap((nearest) =>
    [0, 1].map(() => ({ nearest, ...createCountingIsolate(now) })),
  );
  const place = createPlacer(shares, now);
  const admitted: Admission[] = [];
  let isCeded = false;

  const request = async (step: Step) => {
    const isolate = isolates[2 * step.region + step.isolate];
    if (!isolate) return;
    const around = seenFrom(regions, isolate.nearest);
    const ledger = createLedger(() => {});
    await isolate.count({
      ledger,
      placed: place([check], around, undefined),
      regions: around,
      afterResponse: () => {},
    });
    for (const { check: counted, chargedAtMs = now() } of ledger.charges) {
      admitted.push({ atMs: chargedAtMs, units: counted.cost });
      isCeded ||= counted.limit > Math.ceil(check.limit / 2);
    }
  };

  const sent: Promise<void>[] = [];
  for (const step of history) {
    for (let i = 0; i < step.requests; i += 1) sent.push(request(step));
    await vi.advanceTimersByTimeAsync(step.waitMs);
  }
  await vi.advanceTimersByTimeAsync(10_000);
  await Promise.all(sent);
  return { admitted: admitted.sort((a, b) => a.atMs - b.atMs), isCeded };
}

/** Short waits, waits of about a window, and the moments at which a term or the charges in it end. */
const waitMs = (windowMs: number) =>
  fc.oneof(
    { weight: 6, arbitrary: fc.nat({ max: 60 }) },
    { weight: 4, arbitrary: fc.nat({ max: windowMs }) },
    { weight: 1, arbitrary: fc.constantFrom(2 * windowMs, 10_000, 20_500, 29_900, 30_000, 35_000, 36_000) },
  );

/** Mostly in one region, so that others are idle. */
const anyHistory = (windowMs: number): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.record({
      region: fc.constantFrom(0, 0, 0, 0, 1, 1, 2),
      isolate: fc.nat({ max: 1 }),
      requests: fc.integer({ min: 1, max: 8 }),
      waitMs: waitMs(windowMs),
    }),
    { minLength: 10, maxLength: 60 },
  );

/** All parts move to one region, which uses them at the end of the term. Then all regions use all they can get. */
const endOfTerm = (windowMs: number): fc.Arbitrary<Step[]> =>
  fc
    .record({
      owner: fc.nat({ max: 2 }),
      beforeMs: fc.nat({ max: 300 }),
      afterMs: fc.array(fc.nat({ max: windowMs }), { minLength: 3, maxLength: 12 }),
    })
    .map(({ owner, beforeMs, afterMs }) => {
      const at = (region: number, requests: number, ms: number) => ({
        region: region % 3,
        isolate: 0,
        requests,
        waitMs: ms,
      });
      const termMs = Math.max(30_000, 4 * windowMs);
      return [
        ...Array.from({ length: 20 }, () => at(owner, 1, 20)),
        at(owner, 1, termMs - 400 - beforeMs),
        at(owner, 30, beforeMs),
        ...afterMs.flatMap((ms) => [at(owner, 15, 0), at(owner + 1, 15, 0), at(owner + 2, 15, ms)]),
      ];
    });

const worlds = (algorithm: AlgorithmId): fc.Arbitrary<World> =>
  fc
    .record({
      windowMs: fc.constantFrom(1_000, 2_000, 9_000),
      limit: fc.integer({ min: 1, max: 20 }),
      extra: isBucket(algorithm)
        ? fc.option(fc.integer({ min: 1, max: 20 }), { nil: undefined })
        : fc.constant(undefined),
      cost: fc.constantFrom(1, 1, 1, 2),
    })
    .chain(({ windowMs, ...shape }) =>
      fc.record({
        seed: fc.integer(),
        check: fc.constant(
          createRuleCheck({ algorithm, windowMs, ...shape, rule: { windowSeconds: windowMs / 1_000 } }),
        ),
        shares: fc.constantFrom({ us: 1, eu: 1, ap: 1 }, { us: 3, eu: 1, ap: 1 }, { us: 1, eu: 0, ap: 2 }),
        history: fc.oneof(anyHistory(windowMs), endOfTerm(windowMs)),
        longestMs: fc.constantFrom(0, 5, 80),
        lost: fc.constantFrom(0, 0, 0.2),
      }),
    );

describe.each(ALGORITHM_IDS.filter((id) => id !== 'concurrency'))(
  'regions that transfer parts of %s',
  (algorithm) => {
    it('together never admit more than the limit', async () => {
      let transferred = 0;
      await fc.assert(
        fc.asyncProperty(worlds(algorithm), async (world) => {
          const { admitted, isCeded } = await play(world);
          transferred += Number(isCeded);
          const { limit, windowMs, extra, cost } = world.check;
          const rule = { algorithm, limit, windowMs, extra, cost };
          for (const [i, { atMs }] of admitted.entries())
            expect(DEFINITIONS[algorithm](admitted.slice(0, i + 1), atMs, rule)).toBe(true);
        }),
        { numRuns: rounds(8, 400), endOnFailure: true },
      );
      // Otherwise this would have tested nothing.
      expect(transferred).toBeGreaterThan(0);
    });
  },
);
