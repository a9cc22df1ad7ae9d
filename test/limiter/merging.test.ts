// Each part of a small limit would leave a unit unused. So such a limit is counted in one region as soon as a caller
// strains several.
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { AlgorithmId } from '../../src/core/counting/algorithms/registry.ts';
import type { TransferCheck } from '../../src/core/counting/check.ts';
import { createLedger } from '../../src/limiter/ledger.ts';
import { rounds } from '../rounds.ts';
import { createCountingIsolate } from './counting-isolate.ts';
import { hangingRun, START_MS } from './fake-regions.ts';
import { settleAll, timed, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { place } from './placed.ts';

useFakeTime();
const now = () => Date.now();
const WINDOW_MS = 60_000;

function open(part: number, algorithm: AlgorithmId = 'sliding-window-counter') {
  const regions = ['us', 'eu', 'ap'].map((name) => createModelRegion(name)) as [
    ModelRegion,
    ModelRegion,
    ModelRegion,
  ];
  const placed = place({ us: part, eu: part, ap: part }, { algorithm });
  const later: Promise<unknown>[] = [];
  const isolates = regions.map(() => createCountingIsolate(now));
  /** Sends a request of a caller in that region. True if it passes. */
  const request = async (nearest: number) => {
    const { decision } = await timed(async () =>
      isolates[nearest]?.count({
        placed: [placed],
        regions: seenFrom(regions, nearest),
        afterResponse: (work) => void later.push(work),
        ledger: createLedger(() => {}),
      }),
    );
    return decision?.results[0]?.outcome.allowed === true;
  };
  const settle = () => settleAll(later, regions);
  /** The owner of the counter, according to each region. */
  const owners = () =>
    regions.map((region) => region.peek({ ...placed.check, limit: part })?.transferredTo?.name);
  const calls = (operation: string) =>
    regions.flatMap((region) => region.calls.filter((call) => call.operation === operation));
  return { regions, placed, request, settle, owners, calls };
}

/** Requests that take turns in all regions. Returns how many pass. */
async function spread(
  { request, settle }: ReturnType<typeof open>,
  count: number,
  from = 0,
): Promise<number> {
  let passed = 0;
  for (let i = from; i < from + count; i += 1) {
    passed += Number(await request(i % 3));
    await settle();
  }
  return passed;
}

describe('a small limit whose parts would be rounded', () => {
  it('is counted by one region once a caller strains several regions', async () => {
    const world = open(2);
    await spread(world, 9);
    expect(new Set(world.owners().filter(Boolean)).size).toBe(1);
    expect(world.owners().filter((owner) => owner === undefined)).toHaveLength(1);
  });

  it('admits as much as one counter of the whole limit, and no more', async () => {
    const world = open(2);
    expect(await spread(world, 12)).toBe(6);
    vi.setSystemTime(START_MS + WINDOW_MS);
    let passed = 0;
    for (let i = 0; i < 12; i += 1) {
      vi.setSystemTime(START_MS + WINDOW_MS + (i * WINDOW_MS) / 12);
      passed += await spread(world, 1, i);
    }
    // One counter of six units leaves one unit unused. Three counters of two units would leave three.
    expect(passed).toBe(5);
  });

  it('charges the owner with the units that the other region has counted', async () => {
    const world = open(2);
    expect(await spread(world, 5)).toBe(5);
    const owner = world.regions.find((_, i) => world.owners()[i] === undefined);
    expect(owner?.peek({ ...world.placed.check, ...world.placed.check.full })).toMatchObject({
      remaining: 1,
    });
  });

  it('gives the charge back if the other region has counted more meanwhile', async () => {
    const world = open(10);
    const [us, eu] = world.regions;
    const { run } = eu.does;
    const forLess = (check: TransferCheck): TransferCheck => {
      const { ownerCharge } = check.transfer;
      return {
        ...check,
        transfer: { ...check.transfer, ownerCharge: ownerCharge && { ...ownerCharge, units: 1 } },
      };
    };
    eu.does.run = (call, signal) =>
      run(call.operation === 'transfer' ? { ...call, checks: call.checks.map(forLess) } : call, signal);
    for (const nearest of [1, 1, 1, 0, 0, 0, 0, 0]) await world.request(nearest);
    await world.settle();
    const units = world.calls('refund').map(({ checks }) => checks[0]?.cost);
    expect(units).toEqual([3, 3, 3]);
    expect(world.owners()).toEqual([undefined, undefined, 'us']);
    expect(us.peek({ ...world.placed.check, ...world.placed.check.full })).toMatchObject({ remaining: 25 });
  });

  it('stays split while the region that keeps the turns does not answer', async () => {
    const world = open(2);
    for (const region of world.regions) {
      const { run } = region.does;
      const isTurn = (id: string | undefined) => id?.endsWith('-owner') === true;
      region.does.run = (call, signal) =>
        isTurn(call.checks[0]?.id) ? hangingRun(call, signal) : run(call, signal);
    }
    expect(await spread(world, 12)).toBeLessThanOrEqual(6);
    expect(world.calls('take').every(({ checks }) => checks[0]?.cost === 1)).toBe(true);
  });
});

describe('a limit is not merged', () => {
  it.each([
    ['if it is large', 100, 'sliding-window-counter'],
    ['if its algorithm rounds nothing', 2, 'sliding-window-log'],
  ] as const)('%s', async (_, part, algorithm) => {
    const world = open(part, algorithm);
    await spread(world, 3 * part + 6);
    expect(world.owners()).toEqual([undefined, undefined, undefined]);
  });
});

describe('requests from changing regions', () => {
  it('never exceed the limit, even if answers are lost', async () => {
    const step = fc.record({
      region: fc.nat(2),
      waitMs: fc.constantFrom(0, 10, 900, 29_000),
      isLost: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        vi.setSystemTime(START_MS);
        const world = open(2);
        const admittedAtMs: number[] = [];
        for (const { region, waitMs, isLost } of steps) {
          const { does } = world.regions[region] as ModelRegion;
          const { run } = does;
          // The call arrives, and its answer is lost.
          if (isLost)
            does.run = async (call, signal) => {
              await run(call, signal);
              return hangingRun(call, signal);
            };
          if (await world.request((region + 1) % 3)) admittedAtMs.push(now());
          await world.settle();
          does.run = run;
          vi.setSystemTime(now() + waitMs);
        }
        expect(worstEstimate(admittedAtMs)).toBeLessThanOrEqual(6);
      }),
      { numRuns: rounds(60) },
    );
  });
});

/** The largest estimate that a single counter would have made of all admissions. */
function worstEstimate(admittedAtMs: readonly number[]): number {
  const counts = new Map<number, number>();
  return admittedAtMs.reduce((worst, atMs) => {
    const window = Math.floor(atMs / WINDOW_MS);
    counts.set(window, (counts.get(window) ?? 0) + 1);
    const before = (counts.get(window - 1) ?? 0) * (1 - (atMs % WINDOW_MS) / WINDOW_MS);
    return Math.max(worst, before + (counts.get(window) ?? 0));
  }, 0);
}
