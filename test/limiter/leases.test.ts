// A limiter that leases, on regions in memory and in fake time: what it asks for, and what it decides by itself.
import { describe, expect, it, vi } from 'vitest';
import { createRandom } from '../../local/random.ts';
import type { Decision } from '../../src/core/decision.ts';
import { fails } from './fake-regions.ts';
import { hot, open, openAt, other, scarce, WARM } from './lease-harness.ts';
import { useFakeTime } from './limiter-harness.ts';
import { createMinute, type ModelRegion } from './model-regions.ts';
import { START_MS } from './rule-checks.ts';

useFakeTime();

describe('an isolate that is busy with a counter', () => {
  it('makes one call for many requests', async () => {
    const { sendMany, takes } = open();
    await sendMany(WARM);
    const before = takes();
    const decisions = await sendMany(400);
    expect(decisions.every(({ allowed }) => allowed)).toBe(true);
    expect(takes() - before).toBeLessThanOrEqual(10);
  });

  const remainingOf = (decisions: readonly Decision[]) =>
    decisions.map((one) => (one.kind === 'counted' ? one.results[0]?.outcome.remaining : undefined));
  const downFrom = (first: number, count: number) => Array.from({ length: count }, (_, i) => first - i);

  it('counts Remaining down by one for each request, although it leases units', async () => {
    const { sendMany } = open();
    expect(remainingOf(await sendMany(300))).toEqual(downFrom(999, 300));
  });

  // Each request waits for its answer. A new lease takes so long that the old one runs dry before it arrives.
  it.each([1, 2, 3, 4, 5])(
    'counts Remaining down one by one while the next lease is on its way (seed %d)',
    async (seed) => {
      const random = createRandom(seed);
      const { sendMany, takes } = open([hot], () => Math.floor(random() ** 4 * 40));
      expect(remainingOf(await sendMany(950))).toEqual(downFrom(999, 950));
      expect(takes()).toBeLessThan(600);
    },
  );

  it('admits exactly the limit in a window', async () => {
    const { sendMany } = open();
    const decisions = await sendMany(1_100);
    expect(decisions.filter(({ allowed }) => allowed)).toHaveLength(1_000);
  });

  /** Another isolate uses all that is left. */
  const useUp = (region: ModelRegion) =>
    openAt(region).send([{ ...hot, cost: region.peek(hot)?.remaining ?? 0 }]);

  it('asks for no more units once a region has none', async () => {
    const { region, sendMany, takes } = open();
    await sendMany(WARM);
    await useUp(region);
    const before = takes();
    expect((await sendMany(200)).at(-1)?.allowed).toBe(false);
    // One call for the next lease, and one for the first request that finds no unit.
    expect(takes() - before).toBe(2);
  });

  it('leases with the first request after a window in which it was denied', async () => {
    const { region, sendMany, takes } = open();
    await sendMany(100);
    await useUp(region);
    expect((await sendMany(20)).some(({ allowed }) => allowed)).toBe(false);
    vi.setSystemTime(START_MS + 60_000);
    const before = takes();
    await sendMany(50);
    expect(takes() - before).toBe(1);
  });

  it('goes on with its lease while Redis is down', async () => {
    const { region, sendMany, send } = open();
    await sendMany(WARM);
    region.does.run = fails('unavailable');
    expect((await send()).decision).toMatchObject({ kind: 'counted', allowed: true });
  });

  it('forgets its lease when the announcement changes', async () => {
    const { source, sendMany, takes, limiter } = open();
    await sendMany(WARM);
    expect(limiter.leased().units).toBeGreaterThan(0);
    const before = takes();
    source.announces = 'that';
    await sendMany(1);
    expect([takes() - before, limiter.leased().units]).toEqual([1, 0]);
  });

  it('gives back unused units after the next request of any caller', async () => {
    const { sendMany, send, settle, used, limiter } = open();
    await sendMany(WARM);
    await vi.advanceTimersByTimeAsync(10_500);
    await send([other]);
    await settle();
    expect([limiter.leased().units, used(hot)]).toEqual([0, WARM]);
  });

  it('leases nothing of a rule that forbids leases', async () => {
    const { sendMany, takes } = open([createMinute({ limit: 1_000, rule: { lease: false } })]);
    await sendMany(200);
    expect(takes()).toBe(200);
  });
});

describe('a request with several rules', () => {
  it('is admitted from memory if all rules have leased units', async () => {
    const { sendMany, takes } = open([hot, other]);
    await sendMany(WARM);
    const before = takes();
    await sendMany(200);
    expect(takes() - before).toBeLessThanOrEqual(6);
  });

  it('uses the leased units of one rule, and asks the region about the other rule', async () => {
    const { sendMany, send, region } = open();
    await sendMany(WARM);
    region.calls.length = 0;
    const { decision, ledger } = await send([hot, scarce]);
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, results: [{}, {}] });
    expect(region.calls.map(({ checks }) => checks.map(({ id }) => id))).toEqual([['scarce']]);
    expect(ledger.charges.map(({ check }) => check.id).toSorted()).toEqual(['hot', 'scarce']);
  });

  it('puts leased units back if another rule denies it', async () => {
    const { sendMany, send, limiter } = open();
    await sendMany(WARM);
    const { units } = limiter.leased();
    const sent = { ...scarce, cost: 21 };
    expect((await send([hot, sent])).decision.allowed).toBe(false);
    expect(limiter.leased().units).toBe(units);
  });
});

describe('a lease', () => {
  it('ends with its window', async () => {
    const { sendMany, limiter } = open();
    vi.setSystemTime(START_MS + 59_000);
    await sendMany(WARM);
    const { units } = limiter.leased();
    vi.setSystemTime(START_MS + 60_000);
    expect([units > 0, limiter.leased().units]).toEqual([true, 0]);
  });

  it('ends if the clock is put back', async () => {
    const { sendMany, takes } = open();
    await sendMany(WARM);
    const before = takes();
    vi.setSystemTime(START_MS - 1_000);
    await sendMany(1);
    expect(takes()).toBe(before + 1);
  });
});
