// Many requests at once over several regions, with calls in any order: all regions together never admit more than the
// limit, and a caller in one region can use all of it.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import type { DecisionRequest } from '../../src/limiter/limiter.ts';
import { rounds } from '../rounds.ts';
import { createRandom } from './denial-systems.ts';
import { START_MS } from './fake-regions.ts';
import { openIsolate, useFakeTime } from './limiter-harness.ts';
import { createMinute, createModelRegion, seenFrom } from './model-regions.ts';

useFakeTime();

interface World {
  readonly regions: number;
  readonly isolates: number;
  readonly seed: number;
  /** The longest one-way trip to a region. */
  readonly longestMs: number;
  readonly deadlineMs: number;
  readonly checks: readonly RuleCheck[];
  readonly requests: number;
  /** All requests come within this time. */
  readonly withinMs: number;
  /** How many regions are the nearest one of some caller. */
  readonly nearest: number;
}

const PLENTY = 1_000_000;

/** Sends all requests within one window. Returns how many were admitted. */
async function send({ longestMs, checks, deadlineMs, ...world }: World) {
  vi.setSystemTime(START_MS);
  const random = createRandom(world.seed);
  const upTo = (most: number) => Math.floor(random() * (most + 1));
  const names = ['us', 'eu', 'ap'].slice(0, world.regions);
  const regions = names.map((name) => createModelRegion(name, () => upTo(longestMs)));
  const isolates = Array.from({ length: world.isolates }, () =>
    openIsolate(seenFrom(regions, 0), { deadlineMs }),
  );
  const decided = Array.from({ length: world.requests }, async () => {
    const [at, isolate] = [upTo(world.nearest - 1), isolates[upTo(world.isolates - 1)]];
    await new Promise((resolve) => setTimeout(resolve, upTo(world.withinMs)));
    if (!isolate) throw new Error('there is no such isolate');
    const request: DecisionRequest = {
      regions: seenFrom(regions, at),
      operation: 'take',
      ledger: createLedger(() => {}),
      afterResponse: (work) => void work.catch(() => {}),
    };
    const decision = await isolate.limiter.decide(request, async () => ({ kind: 'checks', checks }));
    return decision.allowed;
  });
  await vi.advanceTimersByTimeAsync(59_000);
  const admitted = (await Promise.all(decided)).filter(Boolean).length;
  /** Units that the counters of all regions have charged for a check. */
  const charged = (check: RuleCheck) =>
    regions.reduce((sum, region) => {
      const outcome = region.peek({ ...check, limit: PLENTY });
      // A region that has transferred its part holds no charge.
      return sum + (outcome?.transferredTo === undefined ? PLENTY - (outcome?.remaining ?? 0) : 0);
    }, 0);
  return { admitted, charged };
}

const world = {
  seed: fc.integer(),
  limit: fc.integer({ min: 3, max: 60 }),
  regions: fc.integer({ min: 2, max: 3 }),
  longestMs: fc.constantFrom(0, 3, 40),
  withinMs: fc.constantFrom(0, 100, 3_000, 20_000),
};
const closed = (limit: number, cost = 1) => createMinute({ limit, cost, rule: { onUnavailable: 'closed' } });

describe('all regions together', () => {
  it('never admit more than the limit, for requests in any region and calls of any length', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          ...world,
          isolates: fc.integer({ min: 1, max: 3 }),
          cost: fc.integer({ min: 1, max: 3 }),
          nearest: fc.integer({ min: 1, max: 3 }),
        }),
        async ({ limit, cost, ...given }) => {
          const { admitted } = await send({
            ...given,
            requests: 100,
            deadlineMs: 256,
            checks: [closed(limit, cost)],
          });
          expect(admitted * cost).toBeLessThanOrEqual(limit);
        },
      ),
      { numRuns: rounds(5), endOnFailure: true },
    ));

  it('admit exactly the limit if all requests come to one region', () =>
    fc.assert(
      fc.asyncProperty(fc.record(world), async ({ limit, ...given }) => {
        const how = { isolates: 1, nearest: 1, requests: 100, deadlineMs: 5_000 };
        expect((await send({ ...given, ...how, checks: [closed(limit)] })).admitted).toBe(limit);
      }),
      { numRuns: rounds(5), endOnFailure: true },
    ));

  it('charge each rule for exactly the admitted requests if a rule that another region counts denies', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          ...world,
          nearest: fc.integer({ min: 1, max: 3 }),
          central: fc.integer({ min: 1, max: 40 }),
        }),
        async ({ limit: _, central, ...given }) => {
          // No rule of this test leases, because leased units are charged before they are used.
          const split = createMinute({ limit: 600, rule: { onUnavailable: 'closed', lease: false } });
          const alone = createMinute({
            id: 'alone',
            limit: central,
            rule: { shares: { eu: 1 }, lease: false },
          });
          const how = { isolates: 2, requests: 120, deadlineMs: 5_000, checks: [split, alone] };
          const { admitted, charged } = await send({ ...given, ...how });
          expect([admitted, charged(split), charged(alone)]).toEqual([central, central, central]);
        },
      ),
      { numRuns: rounds(5), endOnFailure: true },
    ));

  it('never admit more than each of two limits', () =>
    fc.assert(
      fc.asyncProperty(
        fc.record({
          ...world,
          nearest: fc.integer({ min: 1, max: 3 }),
          other: fc.integer({ min: 3, max: 60 }),
        }),
        async ({ limit, other, ...given }) => {
          const second = createMinute({ id: 'second', limit: other, rule: { onUnavailable: 'closed' } });
          const how = { isolates: 2, requests: 120, deadlineMs: 256, checks: [closed(limit), second] };
          const { admitted } = await send({ ...given, ...how });
          expect(admitted).toBeLessThanOrEqual(Math.min(limit, other));
        },
      ),
      { numRuns: rounds(5), endOnFailure: true },
    ));
});
