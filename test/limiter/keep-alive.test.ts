// When a client leaves, the runtime drops the rest of its request, except for work passed to waitUntil.
import { describe, expect, it, vi } from 'vitest';
import type { RuleCheck } from '../../src/core/matching/plan.ts';
import { fails } from './fake-regions.ts';
import { openIsolate, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion, seenFrom } from './model-regions.ts';
import { aloneIn, checkOf } from './regional-isolate.ts';

useFakeTime();

/** An isolate and its regions. */
function start() {
  let underWay = 0;
  const regions = ['us', 'eu'].map((name) => createModelRegion(name));
  for (const { does } of regions) {
    const { run } = does;
    does.run = (call, signal) => {
      underWay += 1;
      return run(call, signal).finally(() => {
        underWay -= 1;
      });
    };
  }
  const isolate = openIsolate(seenFrom(regions, 0));
  /** Whether the request passes work to waitUntil while a region counts the request. */
  const flushes = async (...checks: readonly RuleCheck[]) => {
    let isHandedOver = false;
    await isolate.decide({
      plan: async () => ({ kind: 'checks', checks }),
      afterResponse: () => {
        isHandedOver ||= underWay > 0;
      },
    });
    return isHandedOver;
  };
  const [us, eu] = regions as [ModelRegion, ModelRegion];
  return { us, eu, flushes };
}

/** An isolate whose nearest region has just answered. */
async function open() {
  const isolate = start();
  await isolate.flushes(checkOf('warm-up'));
  return isolate;
}

describe('while it waits for one call, a request', () => {
  it('passes nothing to waitUntil if its region has just answered, and nothing has to be given back', async () => {
    const { flushes } = await open();
    expect(await flushes(checkOf('one'), checkOf('two'))).toBe(false);
  });

  it('passes the call to waitUntil if its region has never answered', async () => {
    const { flushes } = start();
    expect(await flushes(checkOf('one'))).toBe(true);
  });

  it('passes the call to waitUntil a second after the last answer, so that the breaker learns of a hang', async () => {
    const { flushes } = await open();
    await vi.advanceTimersByTimeAsync(999);
    expect(await flushes(checkOf('one'))).toBe(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await flushes(checkOf('one'))).toBe(true);
    expect(await flushes(checkOf('one'))).toBe(false);
  });

  it('passes the call to waitUntil after a failure of its region', async () => {
    const { us, flushes } = await open();
    const { run } = us.does;
    us.does.run = fails('unavailable');
    await flushes(checkOf('one'));
    us.does.run = run;
    expect(await flushes(checkOf('one'))).toBe(true);
  });

  it.each<[string, Partial<RuleCheck>]>([
    ['a seat', { algorithm: 'concurrency', seatId: 'seat-00000000001' }],
    ['a turn in a queue', withRule({ action: 'throttle' })],
    ['a cost that the origin names', withRule({ costFromOrigin: true })],
    ['a refund if the origin cannot be reached', withRule({ refundOnError: true })],
  ])('passes the call to waitUntil for %s', async (_, changes) => {
    const { flushes } = await open();
    expect(await flushes(checkOf('plain'), { ...checkOf('special'), ...changes })).toBe(true);
  });

  it('passes the call to waitUntil if it leases units, and only then', async () => {
    const { us, flushes } = await open();
    const { run } = us.does;
    let leases = false;
    us.does.run = (call, signal) => {
      leases = call.operation === 'take' && call.checks.some(({ leaseUnits }) => leaseUnits);
      return run(call, signal);
    };
    const busy = checkOf('busy', { limit: 1_000_000, rule: { lease: true } });
    const flushed: boolean[] = [];
    while (!leases && flushed.length < 100) {
      await vi.advanceTimersByTimeAsync(50);
      flushed.push(await flushes(busy));
    }
    expect(leases).toBe(true);
    expect(flushed.indexOf(true)).toBe(flushed.length - 1);
  });
});

describe('a request that several regions count passes its calls to waitUntil', () => {
  it('if it calls the regions at once', async () => {
    const { flushes } = await open();
    await flushes(aloneIn('eu', 'far'));
    expect(await flushes(checkOf('near'), aloneIn('eu', 'far'))).toBe(true);
  });

  it('if the second of its regions is the only one that it calls in a round', async () => {
    const { us, flushes } = await open();
    await flushes(aloneIn('eu', 'far'));
    us.does.run = fails('unavailable');
    expect(await flushes(checkOf('split'))).toBe(true);
  });

  it('if it calls the second region because the first has denied it', async () => {
    const { eu, flushes } = await open();
    const split = checkOf('split', { limit: 4 });
    // eu is not idle, and transfers nothing.
    const signal = new AbortController().signal;
    await eu.does.run({ operation: 'take', checks: [{ ...split, limit: 2 }] }, signal);
    for (let i = 0; i < 2; i += 1) await flushes(split);
    expect(await flushes(split)).toBe(true);
  });
});

function withRule(changes: Partial<RuleCheck['rule']>): Partial<RuleCheck> {
  return { rule: { ...checkOf('special').rule, ...changes } };
}
