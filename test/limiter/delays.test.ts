// A decision says why the request was late, even if it was counted as usual in the end.

import { describe, expect, it } from 'vitest';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import type { RunAny } from '../shared/any-call.ts';
import { answers, createRegions, DEADLINE_MS, fails, hangingRun, hangs } from './fake-regions.ts';
import { createSource, openIsolate, useFakeTime } from './limiter-harness.ts';
import { near, openRegions } from './regional-isolate.ts';

useFakeTime();

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const answersAfter =
  (ms: number): RunAny =>
  async (call, signal) => {
    await Promise.race([wait(ms), hangs(signal)]);
    return answers()(call, signal);
  };
const overdue = { expected: 'this', isOverdue: true, isLapsed: false, askedAtMs: 0 };
const noRules: MakePlan = async () => ({ kind: 'checks', checks: [] });

describe('a request that a region counts late', () => {
  it.each([
    ['near', DEADLINE_MS / 4, undefined],
    ['near', DEADLINE_MS / 4 + 1, 'slow'],
  ] as const)('in a %s region, after %d ms, is delayed by: %s', async (_, ms, delayedBy) => {
    const { regions } = createRegions({ run: answersAfter(ms) }, {});
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect([decision, tookMs]).toMatchObject([{ kind: 'counted', allowed: true, delayedBy }, ms]);
    expect(decision).toMatchObject({ failedOver: undefined });
  });

  it.each([
    [200, undefined],
    [201, 'slow'],
  ] as const)(
    'in a far region that mostly takes 100 ms, after %d ms, is delayed by: %s',
    async (ms, delayedBy) => {
      const { owner, next, regions } = createRegions({}, { run: answersAfter(ms) });
      next.distance.note(100);
      owner.trip();
      expect((await openIsolate(regions).decide()).decision).toMatchObject({ kind: 'counted', delayedBy });
    },
  );

  it('is not delayed by a far region whose distance is not known yet', async () => {
    const { owner, regions } = createRegions({}, { run: answersAfter(DEADLINE_MS / 2) });
    owner.trip();
    const { decision } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'breaker-open', delayedBy: undefined });
  });

  it('is delayed by a region that was asked for its part in vain', async () => {
    const { decide, settle, eu, ap } = openRegions();
    for (const { does } of [eu, ap]) {
      const { run } = does;
      does.run = (call, signal) =>
        call.operation === 'transfer' ? fails('unavailable')() : run(call, signal);
    }
    // us has a part of four.
    for (let i = 0; i < 4; i += 1)
      expect(await decide([near()])).toMatchObject({ allowed: true, delayedBy: undefined });
    await settle();
    eu.does.run = hangingRun;
    const decision = await decide([near()]);
    expect(decision).toMatchObject({ kind: 'counted', allowed: true });
    expect([decision.kind === 'counted' && decision.failedOver, decision]).toMatchObject(['timeout', {}]);
  });
});

describe('a request that needs no counter', () => {
  const open = (owner: Parameters<typeof createRegions>[0], next: Parameters<typeof createRegions>[0]) => {
    const source = createSource();
    source.asks = overdue;
    const opened = createRegions(owner, next);
    return { ...opened, ...openIsolate(opened.regions, { source }) };
  };
  const readAfter = (ms: number) => async () => {
    await wait(ms);
    return 'this';
  };

  it('waits for a region that does not answer no longer than a moment', async () => {
    const { decide, asked } = open({ read: hangs }, {});
    const { decision, tookMs } = await decide({ plan: noRules });
    expect([decision, tookMs]).toMatchObject([{ kind: 'unlimited', delayedBy: undefined }, 25]);
    expect(asked).toEqual(['0 owner read', '25 next read']);
  });

  it('takes the answer of the nearest region if it comes before that of the next', async () => {
    const { decide } = open({ read: readAfter(30) }, { read: readAfter(100) });
    expect((await decide({ plan: noRules })).tookMs).toBe(30);
  });

  it.each([
    [DEADLINE_MS / 4 - 25, undefined],
    [DEADLINE_MS / 4 - 24, 'slow'],
  ])('if the next region confirms the rules after %d ms more, is delayed by: %s', async (ms, delayedBy) => {
    const { decide, next } = open({ read: hangs }, { read: readAfter(ms) });
    next.distance.note(100);
    expect((await decide({ plan: noRules })).decision).toMatchObject({ kind: 'unlimited', delayedBy });
  });

  it('is delayed by the breaker of the nearest region, if the next one is far', async () => {
    const { decide, owner, next } = open({}, { read: readAfter(100) });
    next.distance.note(100);
    owner.trip();
    const { decision } = await decide({ plan: noRules });
    expect(decision).toMatchObject({ kind: 'unlimited', delayedBy: 'breaker-open' });
  });

  it('opens the breaker of a silent region, although it does not wait for it', async () => {
    const { decide, settle, owner } = open({ read: hangs }, {});
    for (let i = 0; i < 5; i += 1) expect((await decide({ plan: noRules })).tookMs).toBe(25);
    await settle();
    expect(owner.breaker.state(Date.now())).not.toBe('closed');
    expect((await decide({ plan: noRules })).tookMs).toBe(0);
  });
});
