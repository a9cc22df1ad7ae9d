// No decision takes longer than its deadline, whatever hangs on the way. The tests use the real code for identity.

import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { ABSENT, type Absent } from '../../src/core/ports/callers.ts';
import type { Probe } from '../../src/core/ports/snapshot-source.ts';
import { readClientRequest } from '../../src/http/guard.ts';
import { identify } from '../../src/identity/identity.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import { rounds } from '../rounds.ts';
import type { RunAny } from '../shared/any-call.ts';
import { answers, createRegions, DEADLINE_MS, hangingRun, hangs, never, START_MS } from './fake-regions.ts';
import { createCheck, createSource, openIsolate, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const overdue: Probe = { expected: 'this', isOverdue: true, isLapsed: false, askedAtMs: START_MS };

describe('a deadline', () => {
  const open = (totalMs: number) => {
    const clock = { ms: START_MS };
    return { clock, deadline: createDeadline(totalMs, () => clock.ms) };
  };

  it('ends by the clock, and stays ended', () => {
    const { clock, deadline } = open(100);
    const remaining = [0, 1, 99, 100, 101, 5_000].map((passedMs) => {
      clock.ms = START_MS + passedMs;
      return deadline.remainingMs();
    });
    expect(remaining).toEqual([100, 99, 1, 0, 0, 0]);
  });

  it('gets no longer when the clock is put back', () => {
    const { clock, deadline } = open(100);
    clock.ms -= 3_600_000;
    expect(deadline.remainingMs()).toBe(100);
  });

  it.each([
    ['the time that is left', 40, undefined, 60],
    ['the time that was asked for, if that is less', 40, 20, 20],
    ['the time that is left, if that is less', 90, 20, 10],
    ['whole milliseconds', 0, 20.9, 20],
  ])('gives a signal that lasts for %s', async (_, passedMs, mostMs, expectedMs) => {
    const { clock, deadline } = open(100);
    clock.ms += passedMs;
    const signal = deadline.signal(mostMs);
    await vi.advanceTimersByTimeAsync(expectedMs - 1);
    expect(signal.aborted).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(signal.aborted).toBe(true);
  });

  it('that is over gives an aborted signal, without a timer', () => {
    const { clock, deadline } = open(100);
    clock.ms += 100;
    expect(deadline.signal().aborted).toBe(true);
    expect(vi.getTimerCount()).toBe(0);
  });
});

/** The caller has an API key, and the directory takes this long to find the caller. */
const planAfter =
  (lookUp: () => Promise<Absent>): MakePlan =>
  async ({ deadline }) => {
    const callers = { ofApiKey: lookUp, ofUser: lookUp };
    const request = new Request('https://weir.test/', { headers: { 'X-API-Key': 'k' } });
    await identify(readClientRequest(request), {
      callers,
      tokens: undefined,
      ipv6Prefix: 64,
      afterResponse: () => {},
      deadline,
    });
    return { kind: 'checks', checks: [createCheck()] };
  };

describe('a decision', () => {
  it('takes half of the deadline to learn who calls, and shares the rest among the regions', async () => {
    const { regions, asked } = createRegions({ run: hangingRun }, { run: hangingRun });
    const { decision, tookMs } = await openIsolate(regions).decide({ plan: planAfter(never) });
    expect(decision).toMatchObject({ kind: 'degraded', reason: 'timeout' });
    expect([asked.slice(0, 2), tookMs]).toEqual([['128 owner take', '192 next take'], DEADLINE_MS]);
    // The isolate does not know yet how far away the other region is.
    expect(asked.slice(2)).toEqual(['256 next probe']);
  });

  it('waits for new rules for half of the time that is left, and then uses the old rules', async () => {
    const { regions, asked } = createRegions({ announces: 'that' });
    const source = createSource({ load: never });
    source.asks = overdue;
    const { decision, tookMs } = await openIsolate(regions, { source }).decide();
    expect(decision).toMatchObject({ kind: 'counted', rulesVersion: 'old' });
    expect([asked.slice(0, 1), tookMs]).toEqual([['0 owner take with announcement'], DEADLINE_MS / 2]);
    expect(asked.filter((line) => line.includes('refund'))).toEqual([]);
  });

  it('waits for the refund of outdated charges for half of the time left, then uses the new rules', async () => {
    const { regions, asked } = createRegions({ announces: 'that', run: onlyWithAnnouncement });
    const source = createSource();
    source.asks = overdue;
    const { decision, tookMs } = await openIsolate(regions, { source }).decide();
    expect(decision).toMatchObject({ kind: 'degraded', reason: 'timeout', rulesVersion: 'new' });
    expect(asked.filter((line) => !line.includes('present'))).toEqual([
      '0 owner take with announcement',
      '0 owner refund',
      '128 owner take',
    ]);
    expect(tookMs).toBe(DEADLINE_MS);
  });

  it('has one deadline for everything: identity, both regions, new rules, and a second round', async () => {
    const { regions, asked } = createRegions(
      { run: hangingRun },
      { run: onlyWithAnnouncement, announces: 'that' },
    );
    const source = createSource();
    const { load } = source;
    source.load = (news) => wait(16).then(() => load.call(source, news));
    source.asks = overdue;
    const { decision, tookMs } = await openIsolate(regions, { source }).decide({ plan: planAfter(never) });
    expect(decision).toMatchObject({ kind: 'degraded', reason: 'timeout' });
    expect(asked.filter((line) => !line.includes('present'))).toEqual([
      '128 owner take with announcement',
      '192 next take with announcement',
      '208 next refund',
      // From 232 ms on, the second round looks the caller up again.
      '244 owner take',
      '250 next take',
    ]);
    expect(tookMs).toBe(DEADLINE_MS);
  });

  it('waits for an overdue announcement for a quarter of the deadline after the last region was asked', async () => {
    const { regions, asked } = createRegions({ read: hangs }, { read: hangs });
    const source = createSource();
    source.asks = overdue;
    const plan: MakePlan = async (round) => {
      await planAfter(never)(round);
      return { kind: 'checks', checks: [] };
    };
    const { decision, tookMs } = await openIsolate(regions, { source }).decide({ plan });
    expect(decision).toMatchObject({ kind: 'unlimited', allowed: true });
    // The next region is asked as soon as the nearest one is late. It has a quarter of the deadline.
    expect([asked, tookMs]).toEqual([['128 owner read', '153 next read'], 153 + DEADLINE_MS / 4]);
  });

  it('waits for an announcement until the deadline if its rules have lapsed', async () => {
    const { regions, asked } = createRegions({ read: hangs }, { read: hangs });
    const source = createSource();
    source.asks = { ...overdue, isLapsed: true };
    const plan: MakePlan = async () => ({ kind: 'checks', checks: [] });
    const { tookMs } = await openIsolate(regions, { source }).decide({ plan });
    expect([asked, tookMs]).toEqual([['0 owner read', '25 next read'], DEADLINE_MS]);
  });
});

it('a decision never takes longer than the deadline plus the time that a far region is known to need', async () => {
  const delayMs = fc.oneof(fc.nat(20), fc.nat(2 * DEADLINE_MS), fc.constant(Number.POSITIVE_INFINITY));
  const delays = fc.record({ lookUp: delayMs, owner: delayMs, next: delayMs, load: delayMs });
  const after = (ms: number) => (ms === Number.POSITIVE_INFINITY ? never() : wait(ms));
  const runAfter =
    (ms: number): RunAny =>
    async (call, signal) => {
      await Promise.race([after(ms), hangs(signal)]);
      return answers()(call, signal);
    };
  await fc.assert(
    fc.asyncProperty(delays, fc.boolean(), async ({ lookUp, owner, next, load }, isOverdue) => {
      const announces = 'that';
      const { regions } = createRegions(
        { run: runAfter(owner), announces },
        { run: runAfter(next), announces },
      );
      const source = createSource();
      const { load: loadNow } = source;
      source.load = (news) => after(load).then(() => loadNow.call(source, news));
      source.asks = { ...overdue, isOverdue };
      const plan = planAfter(() => after(lookUp).then(() => ABSENT));
      const { tookMs } = await openIsolate(regions, { source }).decide({ plan });
      // Each of two rounds gives a region that has answered twice the time that it took.
      const farMs = next <= DEADLINE_MS && owner > 0 ? 4 * next : 0;
      expect(tookMs).toBeLessThanOrEqual(DEADLINE_MS + farMs);
    }),
    { numRuns: rounds(60) },
  );
});

/** Answers a call that asks for the announcement. Every other call hangs. */
const onlyWithAnnouncement: RunAny = (call, signal) =>
  call.withAnnouncement ? answers()(call, signal) : hangs(signal);
const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));
