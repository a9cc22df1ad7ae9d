// The ledger sends each change of a charge to the counters that hold it, wherever the decision was made, and never
// throws.

import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { RefundCheck } from '../../src/core/counting/check.ts';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import type { CounterStore } from '../../src/core/ports/region.ts';
import { createLocalLimiter } from '../../src/limiter/fallback.ts';
import { spread } from '../../src/limiter/ledger.ts';
import type { MakePlan } from '../../src/limiter/limiter.ts';
import { type RunAny, runOn, storeOperations } from '../shared/any-call.ts';
import { createRegion } from './fake-regions.ts';
import {
  charged,
  createNotingStore,
  openLedger,
  queued,
  refunded,
  seat,
  settled,
  spending,
} from './ledger-harness.ts';
import { openIsolate, timed } from './limiter-harness.ts';
import { createRuleCheck, START_MS } from './rule-checks.ts';

beforeEach(() => {
  vi.useFakeTimers({ now: START_MS });
  vi.spyOn(Math, 'random').mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

const ALL = [spending, refunded, settled, queued, seat];

/** The nearest region did not answer, and the next one has counted. */
function failedOver() {
  const [nearest, store] = [createNotingStore(), createNotingStore()];
  return { nearest, store, ...openLedger({ store, checks: ALL, silent: [nearest] }) };
}

describe('after a failover, the ledger sends only to the region that counted, not to the nearest one,', () => {
  it('the refund of a client that leaves its queue: its place, and charges of rules that refund errors', async () => {
    const { nearest, store, ledger } = failedOver();
    await ledger.refund();
    const checks = [charged(refunded), charged(queued)];
    expect(store.asked).toEqual([{ operation: 'refund', checks }]);
    expect(nearest.asked).toEqual([]);
  });

  it('the refund of an error: only charges of rules that refund errors', async () => {
    const { nearest, store, ledger } = failedOver();
    await ledger.refundError();
    expect(store.asked).toEqual([{ operation: 'refund', checks: [charged(refunded)] }]);
    expect(nearest.asked).toEqual([]);
  });

  it.each([
    ['more than the charge', 8, [{ operation: 'settle', checks: [charged(settled, { cost: 3 })] }]],
    [
      'less than the charge',
      2,
      [{ operation: 'refund', checks: [charged(settled, { cost: 3, keptUnits: 2 })] }],
    ],
    ['equal to the charge', 5, []],
  ])('the settlement of a real cost that is %s', async (_, cost, asked) => {
    const { nearest, store, ledger } = failedOver();
    await ledger.settle(cost);
    expect(store.asked).toEqual(asked);
    expect(nearest.asked).toEqual([]);
  });

  it('the renewal of seats', async () => {
    const { nearest, store, ledger } = failedOver();
    await store.take({ checks: [seat] }, AbortSignal.timeout(1_000));
    expect(await ledger.renew()).toBe(true);
    expect(store.asked.slice(1)).toEqual([{ operation: 'renew', checks: [seat] }]);
    expect(nearest.asked).toEqual([]);
  });
});

it('the ledger names the time of each charge, which differs by slot in a cluster', async () => {
  const store = createNotingStore();
  const { ledger } = openLedger({ store, checks: [queued] });
  ledger.noteCharge(store, refunded, START_MS - 3);
  await ledger.refund();
  expect(store.asked[0]?.checks.map((check: RefundCheck) => check.chargedAtMs)).toEqual([
    START_MS,
    START_MS - 3,
  ]);
});

it('the ledger gives charges back once, however often it is undone', async () => {
  const { nearest, store, ledger } = failedOver();
  await Promise.all([ledger.undo(), ledger.undo()]);
  const [spent, released] = [ALL.filter((check) => check !== seat), [seat]];
  expect(store.asked).toEqual([
    { operation: 'refund', checks: spent.map((check) => charged(check)) },
    { operation: 'refund', checks: released.map((check) => charged(check)) },
  ]);
  expect(nearest.asked).toEqual([{ operation: 'refund', checks: released }]);
  expect([ledger.isEmpty, ledger.needsFollowUp, ledger.charges]).toEqual([true, false, []]);
});

it('the ledger knows the shortest lifetime of its seats', () => {
  const shorter = { ...seat, id: 'shorter', windowMs: 10_000 };
  const seatMsOf = (...checks: RuleCheck[]) =>
    openLedger({ store: createNotingStore(), checks }).ledger.seatMs;
  expect(seatMsOf(seat, shorter)).toBe(10_000);
  expect(seatMsOf(spending)).toBeUndefined();
});

describe('the ledger releases seats', () => {
  it('where they were counted, and in stores that did not answer', async () => {
    const { nearest, store, ledger, errors } = failedOver();
    await ledger.release();
    expect(store.asked).toEqual([{ operation: 'refund', checks: [charged(seat)] }]);
    expect(nearest.asked).toEqual([{ operation: 'refund', checks: [seat] }]);
    expect(errors).toEqual([]);
  });

  it.each(['store', 'nearest'] as const)(
    'again after 0.5, 2 and 5 s while a release fails (%s)',
    async (failing) => {
      const { ledger, errors, ...stores } = failedOver();
      stores[failing].losesAnswers = Number.POSITIVE_INFINITY;
      const releasing = ledger.release();
      const triesAfter = async (ms: number) => {
        await vi.advanceTimersByTimeAsync(ms);
        return stores[failing].asked.length;
      };
      let tries = 1;
      for (const pauseMs of [500, 2_000, 5_000]) {
        const spreadMs = Math.floor(spread(pauseMs, [{ check: seat }]));
        expect(await triesAfter(spreadMs - 1)).toBe(tries);
        tries += 1;
        expect(await triesAfter(1)).toBe(tries);
      }
      await releasing;
      expect(await triesAfter(60_000)).toBe(4);
      expect(errors).toHaveLength(4);
      expect(stores[failing === 'store' ? 'nearest' : 'store'].asked).toHaveLength(1);
    },
  );

  it.each(['store', 'nearest'] as const)('again only until the store answers (%s)', async (failing) => {
    const { ledger, errors, ...stores } = failedOver();
    stores[failing].losesAnswers = 1;
    let isOver = false;
    const releasing = ledger.release().then(() => {
      isOver = true;
    });
    const pauseMs = Math.floor(spread(500, [{ check: seat }]));
    await vi.advanceTimersByTimeAsync(pauseMs - 1);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
    await releasing;
    expect([stores[failing].asked.length, errors.length, vi.getTimerCount()]).toEqual([2, 1, 0]);
  });

  it('again after pauses of up to twice the usual length, spread by the ids of the seats', () => {
    const pauses = Array.from({ length: 1_000 }, (_, i) =>
      spread(500, [{ check: { ...seat, seatId: `seat-${i}` } }]),
    );
    expect(pauses.every((ms) => ms >= 500 && ms < 1_000)).toBe(true);
    for (const quarter of [0, 1, 2, 3]) {
      const some = pauses.filter((ms) => Math.floor((ms - 500) / 125) === quarter);
      expect(some.length).toBeGreaterThan(200);
    }
  });

  it('in the isolate itself if the isolate has decided alone', async () => {
    const local = createLocalLimiter({ now: () => START_MS, capPerSecond: 0 });
    const decide = (seatId: string) => {
      const { ledger } = openLedger({});
      const checks = [{ ...seat, limit: 1, full: { limit: 1, extra: undefined }, seatId }];
      const { allowed } = local.decide({ reason: 'timeout', checks, ledger, isolates: 1, regions: 1 });
      return { allowed, ledger };
    };
    const first = decide('seat-aaaaaaaaaaa');
    expect([first.allowed, decide('seat-bbbbbbbbbbb').allowed]).toEqual([true, false]);
    await first.ledger.release();
    expect(decide('seat-ccccccccccc').allowed).toBe(true);
  });

  it('in stores that did not answer, even if nothing was charged anywhere', async () => {
    const silent = [createNotingStore(), createNotingStore()];
    await openLedger({ silent, asked: [spending, seat] }).ledger.release();
    const released = [{ operation: 'refund', checks: [seat] }];
    expect(silent.map(({ asked }) => asked)).toEqual([released, released]);
  });

  it('nowhere if the request holds none', async () => {
    const silent = createNotingStore();
    const { ledger } = openLedger({ store: createNotingStore(), checks: [spending], silent: [silent] });
    await ledger.release();
    expect(silent.asked).toEqual([]);
  });
});

it('the ledger leaves no seat in either region after a decision that failed over', async () => {
  const [nearest, next] = [createNotingStore(1), createNotingStore()];
  const regionOn = (name: string, store: CounterStore) =>
    createRegion(name, { run: (call, signal) => runOn(store, call, signal) });
  const isolate = openIsolate([regionOn('owner', nearest), regionOn('next', next)]);
  // Each region has a part of one.
  const held = createRuleCheck({
    ...seat,
    full: { limit: 2, extra: undefined },
    limit: 2,
    rule: { spill: false },
  });
  const plan: MakePlan = async () => ({ kind: 'checks', checks: [held] });
  const { decision, ledger } = await isolate.decide({ plan });
  expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: 'timeout' });
  const others = { ...held, limit: 1, seatId: 'seat-99999999999' };
  const roomIn = (store: CounterStore) => store.peek({ checks: [others] }, AbortSignal.timeout(1_000));
  const rooms = async () =>
    (await Promise.all([nearest, next].map(roomIn))).map(({ outcomes }) => outcomes[0]?.remaining);
  expect(await rooms()).toEqual([0, 0]);
  await timed(() => ledger.release());
  expect(await rooms()).toEqual([1, 1]);
});

describe('the ledger never throws', () => {
  const failing: readonly [string, RunAny][] = [
    ['reject', () => Promise.reject(new Error('x'))],
    [
      'throw',
      () => {
        throw new TypeError('x');
      },
    ],
  ];

  it.each(failing)(
    'when stores %s: it reports each failure, and tries only releases again',
    async (_, run) => {
      let calls = 0;
      const store: CounterStore = {
        ...createNotingStore(),
        ...storeOperations((call, signal) => {
          calls += 1;
          return run(call, signal);
        }),
      };
      const { ledger, errors } = openLedger({ store, checks: ALL, silent: [store] });
      await Promise.all([ledger.refund(), ledger.refundError(), ledger.settle(9), ledger.renew()]);
      expect([calls, errors.length]).toEqual([4, 4]);
      const releasing = ledger.release();
      await vi.advanceTimersByTimeAsync(60_000);
      await releasing;
      // One call releases the seats that the store holds and the seats that it may hold.
      expect([calls, errors.length]).toEqual([8, 8]);
    },
  );

  it('when there is nothing to do', async () => {
    const { ledger, errors } = openLedger({});
    await Promise.all([ledger.refund(), ledger.refundError(), ledger.settle(9), ledger.undo()]);
    await Promise.all([ledger.renew(), ledger.release()]);
    expect([errors, ledger.seatMs, ledger.needsFollowUp, ledger.isEmpty]).toEqual([
      [],
      undefined,
      false,
      true,
    ]);
  });
});

it.each([
  ['a seat', seat, true],
  ['a turn', createRuleCheck({ algorithm: 'leaky-bucket', rule: { action: 'throttle' } }), true],
  ['a refund', refunded, true],
  ['a settlement', settled, true],
  ['nothing', spending, false],
])('the ledger knows whether a decision needs a follow-up: %s', (_, check, expected) => {
  const { ledger } = openLedger({ store: createNotingStore(), checks: [spending, check] });
  expect(ledger.needsFollowUp).toBe(expected);
});
