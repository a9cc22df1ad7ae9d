// Which denials the limiter remembers, and when it still asks.
import { describe, expect, it, vi } from 'vitest';
import type { Probe } from '../../src/core/ports/snapshot-source.ts';
import { answers, createRegions, DEADLINE_MS, denies, fails, hangs, START_MS } from './fake-regions.ts';
import { createCheck, createSource, openIsolate, type TestRequest, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const due: Probe = { expected: 'this', isOverdue: false, isLapsed: false, askedAtMs: START_MS };
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);

/** Each region keeps to its part, so a denial is final. */
const keepsToParts: TestRequest = {
  plan: async () => ({ kind: 'checks', checks: [createCheck({ spill: false })] }),
};

/** An isolate that has just been denied for five seconds. The journal starts after that. */
async function openDenied(...[owner, next]: Partial<Parameters<typeof createRegions>>) {
  const { asked, ...created } = createRegions({ run: denies(5_000), ...owner }, next);
  const isolate = openIsolate(created.regions);
  const decide = () => isolate.decide(keepsToParts);
  expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: false });
  await isolate.settle();
  vi.setSystemTime(START_MS);
  asked.length = 0;
  return { ...isolate, decide, owner: created.owner, asked };
}

describe('a denial that is known', () => {
  it('is repeated from memory until the millisecond in which it ends', async () => {
    const { decide, asked, owner } = await openDenied();
    owner.does.run = answers();
    passMs(4_999);
    const { decision, tookMs, ledger } = await decide();
    expect(decision).toMatchObject({
      kind: 'counted',
      allowed: false,
      nowMs: START_MS + 4_999,
      results: [{ outcome: { allowed: false, retryAfterMs: 1 } }],
    });
    expect(ledger.isEmpty).toBe(true);
    expect([asked, tookMs]).toEqual([[], 0]);
    passMs(1);
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    // The isolate also reports to the census.
    expect(asked.filter((line) => !line.includes('present'))).toEqual(['5000 owner take']);
  });

  it('holds for a request whose plan was told of it, even if it ends before the request is decided', async () => {
    const { regions, owner, asked } = createRegions({ run: denies(5_000) });
    const isolate = openIsolate(regions);
    await isolate.decide(keepsToParts);
    owner.does.run = answers();
    asked.length = 0;
    const checks = [createCheck({ spill: false })];
    const told: boolean[] = [];
    const plan: TestRequest['plan'] = async (round) => {
      told.push(round.isKnownDenied(checks));
      passMs(5_000);
      return { kind: 'checks', checks };
    };
    const { decision, ledger } = await isolate.decide({ plan });
    expect([told, decision.allowed, ledger.isEmpty]).toEqual([[true], false, true]);
    expect(asked.filter((line) => line.includes('take'))).toEqual([]);
  });

  it('is forgotten with a new announcement', async () => {
    const { decide, asked, owner, source } = await openDenied();
    owner.does.run = answers();
    source.announces = 'that';
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(asked).toEqual(['0 owner take']);
  });

  it('that was on its way when the announcement changed is not kept', async () => {
    const { regions, owner, asked } = createRegions({});
    const { decide, source } = openIsolate(regions);
    owner.does.run = (call, signal) => {
      source.announces = 'that';
      return denies(5_000)(call, signal);
    };
    await decide();
    owner.does.run = answers();
    expect((await decide()).decision).toMatchObject({ allowed: true });
    expect(asked.filter((line) => line === '0 owner take')).toHaveLength(2);
  });

  it('of a cluster is not repeated from memory, because a cluster may take it back', async () => {
    const { decide, asked } = await openDenied({ isCluster: true });
    await decide();
    expect(asked).toEqual(['0 owner take']);
  });

  it('stands while its region cannot be asked, and the next region is not asked', async () => {
    const { decide, asked, owner } = await openDenied({}, {});
    owner.trip();
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: false });
    expect(asked).toEqual([]);
  });

  it('of the next region counts only while the nearest region cannot be asked', async () => {
    const { regions, owner, asked } = createRegions({}, { run: denies(5_000) });
    const isolate = openIsolate(regions);
    const decide = () => isolate.decide(keepsToParts);
    const taken = () => asked.filter((line) => line.endsWith('take'));
    owner.trip();
    expect((await decide()).decision).toMatchObject({ allowed: false, failedOver: 'breaker-open' });
    expect((await decide()).decision).toMatchObject({ allowed: false });
    expect(taken()).toEqual(['0 next take']);
    passMs(1_000);
    expect((await decide()).decision).toMatchObject({ allowed: false });
    await isolate.settle();
    expect((await decide()).decision).toMatchObject({ allowed: true });
    expect(taken()).toEqual(['0 next take', '1030 owner take']);
  });

  it('by an isolate that decides alone is not remembered', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('unavailable') });
    const { decide } = openIsolate(regions, { capPerSecond: 1 });
    await decide();
    expect((await decide()).decision).toMatchObject({ kind: 'degraded', allowed: false, fallback: 'cap' });
    owner.does.run = answers();
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(asked.filter((line) => line === '0 owner take')).toHaveLength(3);
  });
});

describe('a caller with a known denial, when it is time to read the announcement,', () => {
  it('is answered at once, and the announcement is read after the response', async () => {
    const { decide, asked, owner, source, settle } = await openDenied();
    const [confirm, load] = [vi.spyOn(source, 'confirm'), vi.spyOn(source, 'load')];
    owner.does.read = () => new Promise((resolve) => setTimeout(() => resolve('this'), 50));
    source.asks = due;
    const { decision, tookMs } = await decide();
    expect(decision).toMatchObject({ kind: 'counted', allowed: false });
    expect([asked, tookMs]).toEqual([['0 owner read'], 0]);
    expect(confirm).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(50);
    await settle();
    expect(confirm).toHaveBeenCalledExactlyOnceWith(due);
    expect(load).not.toHaveBeenCalled();
  });

  it('is answered by the old rules once more, and the new rules are loaded after the response', async () => {
    const { decide, owner, source, settle } = await openDenied();
    const load = vi.spyOn(source, 'load');
    owner.does.read = async () => 'that';
    source.asks = due;
    expect((await decide()).decision).toMatchObject({ allowed: false, rulesVersion: 'old' });
    await settle();
    expect(load).toHaveBeenCalledExactlyOnceWith({ announced: 'that', pointer: owner.pointer });
  });

  it('waits for the announcement if it is overdue, and is decided by the new rules', async () => {
    const { decide, asked, owner, source } = await openDenied();
    source.load = async ({ announced }) => {
      source.announces = announced;
      source.current = createSource().current;
      return true;
    };
    owner.does.read = async () => 'that';
    owner.does.run = answers();
    source.asks = { ...due, isOverdue: true };
    expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(asked).toEqual(['0 owner read', '0 owner take']);
  });

  it('is denied as before, after a quarter of the deadline, if no region answers', async () => {
    const { decide, owner, source } = await openDenied();
    const fail = vi.spyOn(source, 'fail');
    owner.does.read = hangs;
    source.asks = { ...due, isOverdue: true };
    const { decision, tookMs } = await decide();
    expect([decision, tookMs]).toMatchObject([{ kind: 'counted', allowed: false }, DEADLINE_MS / 4]);
    expect(fail).toHaveBeenCalledOnce();
  });
});
