// A bug in Weir is no outage: the request goes on as its rules say, Weir reports the bug, and blames no region.

import { describe, expect, it, vi } from 'vitest';
import type { OnUnavailable } from '../../src/core/matching/rule.ts';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import { createRegions } from './fake-regions.ts';
import { createCheck, createSource, openIsolate, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const bug = new TypeError('x');
const hasBug = () => Promise.reject(bug);
const withRule =
  (onUnavailable: OnUnavailable): MakePlan =>
  async () => ({ kind: 'checks', checks: [createCheck({ onUnavailable })] });

describe('a bug on the way to a region', () => {
  it('is reported, the next region counts, and the decision names the failover', async () => {
    const { regions, owner } = createRegions({ run: hasBug }, {});
    const { decision } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: 'internal-error' });
    expect(owner.reported).toEqual(['TypeError: x']);
  });

  it.each(['open', 'local', 'closed'] as const)(
    'in every region leaves the decision to a rule that is %s, like an outage',
    async (onUnavailable) => {
      const { regions } = createRegions({ run: hasBug }, { run: hasBug });
      const { decision } = await openIsolate(regions).decide({ plan: withRule(onUnavailable) });
      const allowed = onUnavailable !== 'closed';
      expect(decision).toMatchObject({ reason: 'internal-error', allowed, fallback: onUnavailable });
    },
  );

  it('never opens a breaker, however often it happens', async () => {
    const { regions, owner, next } = createRegions({ run: hasBug }, { run: hasBug });
    const { decide } = openIsolate(regions);
    for (let i = 0; i < 50; i += 1) await decide();
    const states = [owner, next].map(({ breaker }) => breaker.state(Date.now()));
    expect(states).toEqual(['closed', 'closed']);
  });
});

describe('a bug in the limiter', () => {
  const broken = () =>
    createSource({
      announced: () => {
        throw bug;
      },
    });

  it.each(['open', 'local', 'closed'] as const)(
    'leaves the decision to a rule that is %s, is reported once, and blames no region',
    async (onUnavailable) => {
      const { regions, owner } = createRegions({});
      const { decide, errors } = openIsolate(regions, { source: broken() });
      const { decision } = await decide({ plan: withRule(onUnavailable) });
      expect(decision).toMatchObject({
        kind: 'degraded',
        reason: 'internal-error',
        allowed: onUnavailable !== 'closed',
        fallback: onUnavailable,
      });
      expect([errors, owner.breaker.state(Date.now())]).toEqual([[bug], 'closed']);
    },
  );

  it('leaves the decision to the rule at whatever moment it shows', async () => {
    const decided: string[] = [];
    for (let working = 0; working < 5; working += 1) {
      let left = working;
      const announced = () => {
        left -= 1;
        if (left < 0) throw bug;
        return 'announcement';
      };
      const { decide } = openIsolate(createRegions({}).regions, { source: createSource({ announced }) });
      const { decision } = await decide({ plan: withRule('closed') });
      expect(decision.allowed).toBe(decision.kind === 'counted');
      decided.push(decision.kind === 'degraded' ? decision.reason : decision.kind);
    }
    // The limiter asks four times.
    expect(decided).toEqual([...Array(4).fill('internal-error'), 'counted']);
  });

  it('lets a request go on if its rules are not known', async () => {
    const { decide, errors } = openIsolate(createRegions({}).regions);
    const { decision } = await decide({ plan: hasBug });
    expect(decision).toMatchObject({ reason: 'internal-error', allowed: true, fallback: 'open' });
    expect(errors).toEqual([bug]);
  });

  it('lets a request go on if its checks make no sense, and reports both errors', async () => {
    const { decide, errors } = openIsolate(createRegions({}).regions, { source: broken() });
    const checks = [{ ...createCheck(), limit: Number.NaN, full: { limit: Number.NaN, extra: undefined } }];
    const { decision } = await decide({ plan: async () => ({ kind: 'checks', checks }) });
    expect(decision).toMatchObject({ reason: 'internal-error', allowed: true, fallback: 'open' });
    expect(errors.map(String)).toEqual(['TypeError: x', expect.stringContaining('BadCheckError')]);
  });

  it('is never blamed on a region, however often it happens', async () => {
    const { regions, owner, next, asked } = createRegions({}, {});
    const { decide, settle, errors } = openIsolate(regions, { source: broken() });
    for (let i = 0; i < 50; i += 1) {
      const { decision } = await decide();
      expect(decision).toMatchObject({ kind: 'degraded', reason: 'internal-error' });
    }
    await settle();
    expect(errors).toEqual(Array(50).fill(bug));
    expect([owner, next].map(({ breaker }) => breaker.state(Date.now()))).toEqual(['closed', 'closed']);
    // The isolate reports no region to operators, and probes none.
    expect([owner.reported, next.reported, asked]).toEqual([[], [], []]);
  });

  it('is told apart from a failure of a store, which is not reported as a bug', async () => {
    const source = createSource({
      announced: () => {
        throw new CounterStoreError('timeout', 'x');
      },
    });
    const { decide, errors } = openIsolate(createRegions({}).regions, { source });
    expect((await decide()).decision).toMatchObject({ kind: 'degraded', reason: 'timeout' });
    expect(errors).toEqual([]);
  });
});

it('a bug after the response is reported, too', async () => {
  const { regions } = createRegions({});
  const source = createSource({ load: hasBug });
  source.asks = { expected: 'this', isOverdue: false, isLapsed: false, askedAtMs: Date.now() };
  const { decide, settle, errors } = openIsolate(regions, { source });
  regions[0].pointer.read = async () => 'that';
  await decide({ plan: async () => ({ kind: 'checks', checks: [] }) });
  await vi.advanceTimersByTimeAsync(0);
  await settle();
  expect(errors).toEqual([bug]);
});
