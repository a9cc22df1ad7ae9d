// The time of an origin begins when it has the whole request, and ends with its answer.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { OriginDeadline } from '../../src/proxy/proxy.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it.each([
  ['that ends with its client', undefined],
  ['that outlives its client', 5_000],
])(
  'an origin that answers before it has the whole request is never late, in a request %s',
  async (_, outlivesClientMs) => {
    const deadline = new OriginDeadline(new AbortController().signal, { timeoutMs: 1_000, outlivesClientMs });
    deadline.stop();
    deadline.start();
    await vi.advanceTimersByTimeAsync(10_000);
    expect([deadline.reason(), deadline.signal.aborted]).toEqual([undefined, false]);
  },
);

it.each([undefined, 5_000])(
  'an origin without an answer is late when its time is over (%s)',
  async (outlivesClientMs) => {
    const deadline = new OriginDeadline(new AbortController().signal, { timeoutMs: 1_000, outlivesClientMs });
    await vi.advanceTimersByTimeAsync(5_000);
    deadline.start();
    await vi.advanceTimersByTimeAsync(999);
    expect(deadline.reason()).toBeUndefined();
    await vi.advanceTimersByTimeAsync(1);
    expect(deadline.reason()).toBe('timeout');
  },
);
