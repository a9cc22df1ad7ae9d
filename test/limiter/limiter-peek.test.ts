// A peek charges nothing and leaves nothing behind. And isolates report to the census along with other calls.
import { describe, expect, it, vi } from 'vitest';
import { answers, createRegions, DEADLINE_MS, denies, fails, hangs, never } from './fake-regions.ts';
import { createCheck, openIsolate, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);
const calls = (asked: readonly string[]) => asked.filter((line) => !line.includes('present'));

describe('a peek', () => {
  it('charges nothing, not even in the next region', async () => {
    const { regions, asked } = createRegions({ run: fails('unavailable') }, {});
    const { decision } = await openIsolate(regions).decide({ operation: 'peek' });
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'unavailable' });
    expect(calls(asked)).toEqual(['0 owner peek', '0 next peek']);
  });

  it('without an answer is not decided by this isolate, and does not use up its cap', async () => {
    const { regions } = createRegions({ run: fails('unavailable') });
    const { decide } = openIsolate(regions, { capPerSecond: 1 });
    for (let i = 0; i < 3; i += 1)
      expect((await decide({ operation: 'peek' })).decision).toEqual({
        kind: 'degraded',
        allowed: false,
        fallback: 'closed',
        reason: 'unavailable',
        rulesVersion: 'old',
        isStale: false,
      });
    expect((await decide()).decision).toMatchObject({ kind: 'degraded', allowed: true });
  });

  it('is answered by the counters, although a denial is known', async () => {
    const { regions, owner, asked } = createRegions({ run: denies(5_000) });
    const { decide } = openIsolate(regions);
    await decide();
    owner.does.run = answers();
    expect((await decide({ operation: 'peek' })).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(calls(asked)).toEqual(['0 owner take', '0 owner peek']);
  });

  it('that is denied is not remembered', async () => {
    const { regions, owner, asked } = createRegions({ run: denies(5_000) });
    const { decide } = openIsolate(regions);
    expect((await decide({ operation: 'peek' })).decision).toMatchObject({ kind: 'counted', allowed: false });
    owner.does.run = answers();
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(calls(asked)).toEqual(['0 owner peek', '0 owner take']);
  });
});

describe('an isolate reports to the census', () => {
  const presents = (asked: readonly string[]) => asked.filter((line) => line.includes('present'));

  it('whenever a report is due, after an answer of the counters, always with the same id', async () => {
    let ids = 0;
    const { regions, asked } = createRegions({});
    const { decide } = openIsolate(regions, { isolateId: () => `id-${++ids}` });
    // Reports are frequent at first. Later, there is one a minute.
    for (const ms of [0, 1, 4_998, 1, 1, 4_999, 1, 59_998, 1, 1]) {
      passMs(ms);
      await decide();
    }
    const dueMs = [0, 5_000, 10_000, 70_000];
    expect(presents(asked)).toEqual(dueMs.map((ms) => `${ms} owner present id-1`));
  });

  it('in the region that has answered, even if it is not the nearest one', async () => {
    const { regions, asked } = createRegions({ run: fails('unavailable') }, {});
    await openIsolate(regions).decide();
    expect(presents(asked)).toEqual(['0 next present isolate-1']);
  });

  it('but not while no region answers, nor when there is nothing to count', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('unavailable') });
    const { decide } = openIsolate(regions);
    await decide();
    await decide({ plan: async () => ({ kind: 'checks', checks: [] }) });
    await decide({ plan: async () => ({ kind: 'listed', list: 'deny' }) });
    expect(presents(asked)).toEqual([]);
    owner.does.run = answers();
    await decide();
    expect(presents(asked)).toEqual(['0 owner present isolate-1']);
  });

  it.each([
    ['hangs', never],
    ['fails', fails('unavailable')],
  ])('without delaying or failing a request, even if the report %s', async (_, present) => {
    const { regions, owner, asked } = createRegions({ present, isolates: 7 });
    const { decide } = openIsolate(regions);
    for (let i = 0; i < 3; i += 1) {
      const { decision, tookMs } = await decide();
      expect([decision, tookMs]).toMatchObject([{ kind: 'counted', allowed: true }, 0]);
    }
    expect([presents(asked), owner.census.count()]).toEqual([['0 owner present isolate-1'], 7]);
    expect(owner.breaker.state(Date.now())).toBe('closed');
  });

  it('and gives up after the time that a decision may take', async () => {
    const { regions } = createRegions({ present: (_, signal) => hangs(signal) });
    const { decide, settle } = openIsolate(regions);
    await decide();
    let isSettled = false;
    void settle().then(() => {
      isSettled = true;
    });
    await vi.advanceTimersByTimeAsync(DEADLINE_MS - 1);
    expect(isSettled).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isSettled).toBe(true);
  });

  it('so that each isolate takes its part of a limit when the counters are down', async () => {
    const { regions, owner } = createRegions({ present: async () => 5 });
    const { decide, settle } = openIsolate(regions);
    await decide();
    await settle();
    owner.does.run = fails('unavailable');
    const checks = [createCheck({ limit: 10, onUnavailable: 'local' })];
    const allowed: boolean[] = [];
    for (let i = 0; i < 4; i += 1)
      allowed.push((await decide({ plan: async () => ({ kind: 'checks', checks }) })).decision.allowed);
    expect(allowed).toEqual([true, true, false, false]);
  });
});
