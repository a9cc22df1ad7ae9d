// Fake time waits for real work: vitest.config.ts loads fake-time.ts before every test file.
import { connect } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

/** Some ten milliseconds of real work. */
const LARGE = new Uint8Array(20_000_000);
const digest = () => crypto.subtle.digest('SHA-256', LARGE);

beforeEach(() => void vi.useFakeTimers({ now: 0 }));
afterEach(() => void vi.useRealTimers());

describe('fake time', () => {
  it('waits for a digest that is under way, and for what follows it', async () => {
    const moments: number[] = [];
    const working = (async () => {
      for (let i = 0; i < 3; i += 1) {
        await digest();
        await new Promise((resolve) => setTimeout(resolve, 100));
        moments.push(Date.now());
      }
    })();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(moments).toEqual([100, 200, 300]);
    expect(Date.now()).toBe(2_000);
    await working;
  });

  it('waits for work that a timer has started before it goes on to the next timer', async () => {
    const moments: string[] = [];
    setTimeout(async () => {
      await digest();
      moments.push(`digest at ${Date.now()}`);
    }, 100);
    setTimeout(() => moments.push(`timer at ${Date.now()}`), 101);
    await vi.runAllTimersAsync();
    expect(moments).toEqual(['digest at 100', 'timer at 101']);
  });

  it('does not pass through a function that cannot wait, while real work is under way', async () => {
    const working = digest();
    expect(() => vi.advanceTimersByTime(1)).toThrow('real work is under way (crypto.subtle.digest)');
    expect(Date.now()).toBe(0);
    await working;
    vi.advanceTimersByTime(1);
    expect(Date.now()).toBe(1);
  });

  it('allows no connection', () => {
    expect(() => connect(1)).toThrow('a test in fake time opened a connection');
  });
});
