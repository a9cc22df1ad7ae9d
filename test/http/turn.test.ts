// A request that waits for its turn, in fake time.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { waitForTurn } from '../../src/gateway/seats.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** What the wait has led to so far. */
function start(ms: number, client: AbortSignal) {
  const said: boolean[] = [];
  void waitForTurn(ms, client).then((isTurn) => said.push(isTurn));
  return said;
}

describe('a request that waits', () => {
  it('has its turn when its time has come, and not before', async () => {
    const said = start(700, new AbortController().signal);
    await vi.advanceTimersByTimeAsync(699);
    expect(said).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(said).toEqual([true]);
  });

  it('has its turn at once if there is nothing to wait for', async () => {
    const said = start(0, new AbortController().signal);
    await vi.advanceTimersByTimeAsync(0);
    expect(said).toEqual([true]);
  });

  it('has no turn if its client leaves, or has left before', async () => {
    const client = new AbortController();
    const said = start(700, client.signal);
    await vi.advanceTimersByTimeAsync(300);
    client.abort();
    await vi.advanceTimersByTimeAsync(0);
    expect([said, vi.getTimerCount()]).toEqual([[false], 0]);
    const late = start(0, client.signal);
    await vi.advanceTimersByTimeAsync(0);
    expect(late).toEqual([false]);
  });
});
