// What becomes of charges: it goes to the counters that have them, wherever the decision was made, and nothing throws.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Decision } from '../../src/core/counting/decision.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CounterStore } from '../../src/core/ports/counter-store.ts';
import { hasSequel } from '../../src/limiter/charges.ts';
import { createLocalLimiter } from '../../src/limiter/local-limiter.ts';
import {
  charged,
  chargesOf,
  counted,
  createNotingStore,
  degraded,
  lease,
  queued,
  refunded,
  resultsFor,
  settled,
  spending,
} from './charges-harness.ts';
import { createRegion, openIsolate, timed } from './limiter-harness.ts';
import { admitted, createRuleCheck, deniedFor, START_MS } from './rule-checks.ts';

beforeEach(() => {
  vi.useFakeTimers({ now: START_MS });
  vi.spyOn(Math, 'random').mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const ALL = [spending, refunded, settled, queued, lease];

/** Failed over: the nearest region has not answered, the next one has counted. */
function failedOver() {
  const [nearest, store] = [createNotingStore(), createNotingStore()];
  const decision = counted({
    results: resultsFor(ALL, admitted, store),
    unanswered: [nearest],
    failedOver: 'timeout',
  });
  return { nearest, store, ...chargesOf(decision) };
}

describe('after failing over, the region that counted is told, and not the nearest one', () => {
  it('of what is given back to those who leave before their turn: places in a queue, and what rules say', async () => {
    const { nearest, store, charges } = failedOver();
    await charges.refund();
    const checks = [charged(refunded), charged(queued)];
    expect(store.asked).toEqual([{ operation: 'refund', checks }]);
    expect(nearest.asked).toEqual([]);
  });

  it('of what is given back for an error: only what rules say', async () => {
    const { nearest, store, charges } = failedOver();
    await charges.refundError();
    expect(store.asked).toEqual([{ operation: 'refund', checks: [charged(refunded)] }]);
    expect(nearest.asked).toEqual([]);
  });

  it.each([
    ['more', 8, [{ operation: 'settle', checks: [charged(settled, { cost: 3 })] }]],
    ['less', 2, [{ operation: 'refund', checks: [charged(settled, { cost: 3, want: 2 })] }]],
    ['as much', 5, []],
  ])('of the real cost, if it is %s', async (_, cost, asked) => {
    const { nearest, store, charges } = failedOver();
    await charges.settle(cost);
    expect(store.asked).toEqual(asked);
    expect(nearest.asked).toEqual([]);
  });

  it('that leases are still held', async () => {
    const { nearest, store, charges } = failedOver();
    await store.run({ operation: 'take', checks: [lease] }, AbortSignal.timeout(1_000));
    expect(await charges.renew()).toBe(true);
    expect(store.asked.slice(1)).toEqual([{ operation: 'renew', checks: [charged(lease)] }]);
    expect(nearest.asked).toEqual([]);
  });
});

it('names the time of its own slot for each charge in a cluster', async () => {
  const store = createNotingStore();
  const outcome = { ...admitted, nowMs: START_MS - 3 };
  const results = [...resultsFor([refunded], outcome, store), ...resultsFor([queued], admitted, store)];
  await chargesOf(counted({ results })).charges.refund();
  expect(store.asked[0]?.checks.map(({ chargedAtMs }) => chargedAtMs)).toEqual([START_MS - 3, START_MS]);
});

it('gives nothing back of what was not charged', async () => {
  const store = createNotingStore();
  const logging = createRuleCheck({ log: true, rule: { refundOnError: true } });
  const { charges } = chargesOf(counted({ results: resultsFor([logging], deniedFor(9), store) }));
  await Promise.all([charges.refund(), charges.refundError(), charges.settle(9), charges.release()]);
  expect(store.asked).toEqual([]);
});

it('has leases for as long as the shortest of them', () => {
  const shorter = { ...lease, id: 'shorter', windowMs: 10_000 };
  const leaseMsOf = (...checks: RuleCheck[]) =>
    chargesOf(counted({ results: resultsFor(checks, admitted, createNotingStore()) })).charges.leaseMs;
  expect(leaseMsOf(lease, shorter)).toBe(10_000);
  expect(leaseMsOf(spending)).toBeUndefined();
});

describe('leases are released', () => {
  it('where they were counted, and where nobody answered', async () => {
    const { nearest, store, charges, errors } = failedOver();
    await charges.release();
    expect(store.asked).toEqual([{ operation: 'refund', checks: [charged(lease)] }]);
    expect(nearest.asked).toEqual([{ operation: 'refund', checks: [lease] }]);
    expect(errors).toEqual([]);
  });

  it.each(['store', 'nearest'] as const)('again after 0.5, 2 and 5 s if they must (%s)', async (failing) => {
    const { charges, errors, ...stores } = failedOver();
    stores[failing].losesAnswers = Number.POSITIVE_INFINITY;
    const releasing = charges.release();
    const triesAfter = async (ms: number) => {
      await vi.advanceTimersByTimeAsync(ms);
      return stores[failing].asked.length;
    };
    expect(await triesAfter(499)).toBe(1);
    expect(await triesAfter(1)).toBe(2);
    expect(await triesAfter(1_999)).toBe(2);
    expect(await triesAfter(1)).toBe(3);
    expect(await triesAfter(4_999)).toBe(3);
    expect(await triesAfter(1)).toBe(4);
    await releasing;
    expect(await triesAfter(60_000)).toBe(4);
    expect(errors).toHaveLength(4);
    expect(stores[failing === 'store' ? 'nearest' : 'store'].asked).toHaveLength(1);
  });

  it.each(['store', 'nearest'] as const)('until that is known to be done (%s)', async (failing) => {
    const { charges, errors, ...stores } = failedOver();
    stores[failing].losesAnswers = 1;
    let isOver = false;
    const releasing = charges.release().then(() => {
      isOver = true;
    });
    await vi.advanceTimersByTimeAsync(499);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
    await releasing;
    expect([stores[failing].asked.length, errors.length, vi.getTimerCount()]).toEqual([2, 1, 0]);
  });

  it('after pauses that are up to twice as long, by chance', async () => {
    vi.mocked(Math.random).mockReturnValue(0.5);
    const { nearest, charges } = failedOver();
    nearest.losesAnswers = 1;
    const releasing = charges.release();
    await vi.advanceTimersByTimeAsync(749);
    expect(nearest.asked).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(nearest.asked).toHaveLength(2);
    await releasing;
  });

  it('in the isolate itself if it has decided alone, and where nobody answered', async () => {
    const region = createNotingStore();
    const local = createLocalLimiter({ now: () => START_MS, capPerSecond: 0 });
    const decide = (leaseId: string) =>
      local.decide({
        reason: 'timeout',
        checks: [{ ...lease, limit: 1, full: { limit: 1, extra: undefined }, leaseId }],
        unanswered: [region],
        isolates: 1,
        regions: 1,
      });
    const first = decide('lease-aaaaaaaaaa');
    expect([first.allowed, decide('lease-bbbbbbbbbb').allowed]).toEqual([true, false]);
    await chargesOf(first).charges.release();
    expect(region.asked).toEqual([{ operation: 'refund', checks: first.checks }]);
    expect(decide('lease-cccccccccc').allowed).toBe(true);
  });

  it.each<[string, (unanswered: readonly CounterStore[]) => Decision]>([
    [
      'a region',
      (unanswered) => counted({ allowed: false, results: resultsFor([lease], deniedFor(9)), unanswered }),
    ],
    ['a closed rule', (unanswered) => degraded({ checks: [spending, lease], unanswered })],
    ['the cap', (unanswered) => degraded({ fallback: 'cap', checks: [lease, spending], unanswered })],
  ])('where nobody answered, also if %s refused the request', async (_, decisionWith) => {
    const silent = [createNotingStore(), createNotingStore()];
    await chargesOf(decisionWith(silent)).charges.release();
    const released = [{ operation: 'refund', checks: [lease] }];
    expect(silent.map(({ asked }) => asked)).toEqual([released, released]);
  });

  it('nowhere if a region has refused the request: it has charged nothing', async () => {
    const store = createNotingStore();
    const results = [...resultsFor([lease], admitted, store), ...resultsFor([spending], deniedFor(9), store)];
    const { charges } = chargesOf(counted({ allowed: false, results }));
    await Promise.all([charges.release(), charges.refund(), charges.renew()]);
    expect(store.asked).toEqual([]);
  });

  it('nowhere if there are none', async () => {
    const silent = createNotingStore();
    await chargesOf(counted({ results: resultsFor([spending]), unanswered: [silent] })).charges.release();
    await chargesOf(degraded({ checks: [spending], unanswered: [silent] })).charges.release();
    await chargesOf(degraded({ unanswered: [silent] })).charges.release();
    expect(silent.asked).toEqual([]);
  });
});

it('leaves no lease in either region after a decision that failed over', async () => {
  const [nearest, next] = [createNotingStore(1), createNotingStore()];
  const regionOn = (name: string, store: CounterStore) => createRegion(name, { run: store.run.bind(store) });
  const isolate = openIsolate([regionOn('home', nearest), regionOn('next', next)]);
  // Each region has a part of one.
  const held = createRuleCheck({
    ...lease,
    full: { limit: 2, extra: undefined },
    limit: 2,
    rule: { spill: false },
  });
  const { decision } = await isolate.decide({ plan: async () => ({ kind: 'checks', checks: [held] }) });
  expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: 'timeout' });
  const others = { ...held, limit: 1, leaseId: 'lease-9999999999' };
  const roomIn = (store: CounterStore) =>
    store.run({ operation: 'peek', checks: [others] }, AbortSignal.timeout(1_000));
  const rooms = async () =>
    (await Promise.all([nearest, next].map(roomIn))).map(({ outcomes }) => outcomes[0]?.remaining);
  expect(await rooms()).toEqual([0, 0]);
  await timed(() => chargesOf(decision).charges.release());
  expect(await rooms()).toEqual([1, 1]);
});

describe('nothing throws', () => {
  const failing: readonly [string, CounterStore['run']][] = [
    ['reject', () => Promise.reject(new Error('x'))],
    [
      'throw',
      () => {
        throw new TypeError('x');
      },
    ],
  ];

  it.each(failing)('when stores %s: it is reported, and only releases are tried again', async (_, run) => {
    let calls = 0;
    const store: CounterStore = {
      ...createNotingStore(),
      run(call, signal) {
        calls += 1;
        return run(call, signal);
      },
    };
    const { charges, errors } = chargesOf(
      counted({ results: resultsFor(ALL, admitted, store), unanswered: [store] }),
    );
    await Promise.all([charges.refund(), charges.refundError(), charges.settle(9), charges.renew()]);
    expect([calls, errors.length]).toEqual([4, 4]);
    const releasing = charges.release();
    await vi.advanceTimersByTimeAsync(60_000);
    await releasing;
    expect([calls, errors.length]).toEqual([12, 12]);
  });

  const by = { rulesVersion: 'v', isStale: false };
  it.each<[string, Decision]>([
    ['was allowed without limits', { kind: 'unlimited', allowed: true, ...by }],
    ['was on a list', { kind: 'listed', list: 'allow', allowed: true, ...by }],
    ['was not verified', { kind: 'unverified', credential: 'token', allowed: false, ...by }],
    ['had no rules', degraded({ allowed: true, fallback: 'open' })],
    ['was known to be denied', counted({ allowed: false, results: resultsFor([spending], deniedFor(9)) })],
  ])('when a request %s, and nothing is to be done', async (_, decision) => {
    const { charges, errors } = chargesOf(decision);
    await Promise.all([charges.refund(), charges.refundError(), charges.settle(9)]);
    await Promise.all([charges.renew(), charges.release()]);
    expect([errors, charges.leaseMs, hasSequel(decision)]).toEqual([[], undefined, false]);
  });
});

it.each([
  ['a lease', lease, true],
  ['a turn', createRuleCheck({ algorithm: 'leaky-bucket', rule: { action: 'throttle' } }), true],
  ['a refund', refunded, true],
  ['a settlement', settled, true],
  ['nothing', spending, false],
])('knows whether %s may follow, counted or not', (_, check, expected) => {
  expect(hasSequel(counted({ results: resultsFor([spending, check]) }))).toBe(expected);
  expect(hasSequel(degraded({ checks: [spending, check] }))).toBe(expected);
});
