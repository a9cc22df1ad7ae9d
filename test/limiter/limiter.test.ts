import { describe, expect, it } from 'vitest';
import type { Check } from '../../src/core/check.ts';
import { type CounterStore, CounterStoreError } from '../../src/core/counter-store.ts';
import { createLimiter } from '../../src/limiter/limiter.ts';

const check: Check = { key: 'k', id: 'i', algorithm: 'gcra', limit: 1, windowMs: 1_000, cost: 1 };
const storeThat = (run: CounterStore['run']): CounterStore => ({
  run,
  reset: async () => {},
  ping: async () => {},
});
const decide = (run: CounterStore['run']) =>
  createLimiter({ deadlineMs: 20 }).decide(storeThat(run), [check]);

describe('the limiter lets a request go on, and says why, when its store', () => {
  it.each(['timeout', 'unavailable', 'bad-reply'] as const)('fails with %s', async (failure) => {
    const decision = await decide(() => Promise.reject(new CounterStoreError(failure, 'x')));
    expect(decision).toEqual({ kind: 'degraded', allowed: true, reason: failure });
  });

  it('has a bug', async () => {
    const degraded = { kind: 'degraded', allowed: true, reason: 'unavailable' };
    expect(await decide(() => Promise.reject(new TypeError('x')))).toEqual(degraded);
    expect(await decide(async () => ({ nowMs: 1, outcomes: [] }))).toEqual(degraded);
  });
});

it('gives the store a signal that ends with the deadline', async () => {
  const untilAborted = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(new CounterStoreError('timeout', 'x')));
    });
  expect(await decide((_, signal) => untilAborted(signal))).toMatchObject({ reason: 'timeout' });
});

it('asks nobody when no rule applies', async () => {
  const store = storeThat(() => Promise.reject(new Error('asked')));
  expect(await createLimiter({ deadlineMs: 20 }).decide(store, [])).toEqual({
    kind: 'unlimited',
    allowed: true,
  });
});
