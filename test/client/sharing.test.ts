// Twenty clients on one limit that know nothing of each other: they use it, and are hardly ever denied.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createRandom } from '../../local/random.ts';
import { createFetch } from '../../src/client.ts';
import { createLimitedServer, type Limit } from './server.ts';

const CLIENTS = 20;

beforeEach(() => void vi.useFakeTimers({ now: 1_700_000_003_400 }));
afterEach(() => void vi.useRealTimers());

/** A machine that stands still for `pauseMs`, once in each `everyMs`. Events of that time happen after it. */
interface Pauses {
  readonly everyMs: number;
  readonly pauseMs: number;
}

function createSleep({ everyMs, pauseMs }: Pauses) {
  const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
  return async (ms: number) => {
    await wait(ms);
    const intoMs = Date.now() % everyMs;
    if (intoMs < pauseMs) await wait(pauseMs - intoMs);
  };
}

/**
 * Each client asks again as soon as it has its answer. In the first two windows, clients learn how many units they get.
 */
async function share(limit: Limit, pauses: Pauses = { everyMs: 1, pauseMs: 0 }) {
  const random = createRandom(7);
  const sleep = createSleep(pauses);
  const server = createLimitedServer(limit, () => sleep(2 + Math.floor(random() * 10)));
  let isOver = false;
  const clients = Array.from({ length: CLIENTS }, async () => {
    const fetch = createFetch({ fetch: server.fetch, random, sleep });
    while (!isOver) await fetch('https://api.test/');
  });
  await vi.advanceTimersByTimeAsync(2 * limit.windowMs);
  const before = { admitted: server.admitted, denied: server.denied };
  await vi.advanceTimersByTimeAsync(4 * limit.windowMs);
  const admitted = server.admitted - before.admitted;
  const denied = server.denied - before.denied;
  isOver = true;
  await vi.advanceTimersByTimeAsync(2 * limit.windowMs);
  await Promise.all(clients);
  return { used: admitted / (4 * limit.limit), denied: denied / (admitted + denied) };
}

it.each(['fixed-window', 'token-bucket', 'gcra', 'leaky-bucket'] as const)(
  'of a %s limit, twenty clients use at least 98 percent, and at most 5 in 1,000 of their requests are denied',
  async (algorithm) => {
    const { used, denied } = await share({ algorithm, limit: 1_000, windowMs: 10_000 });
    expect(used).toBeGreaterThanOrEqual(0.98);
    expect(denied).toBeLessThanOrEqual(0.005);
  },
);

it.each(['sliding-window-log', 'sliding-window-counter'] as const)(
  'of a %s limit, twenty clients use at least 90 percent, and at most 5 in 1,000 of their requests are denied',
  async (algorithm) => {
    const { used, denied } = await share({ algorithm, limit: 1_000, windowMs: 10_000 });
    expect(used).toBeGreaterThanOrEqual(0.9);
    expect(denied).toBeLessThanOrEqual(0.005);
  },
);

it.each([
  { algorithm: 'fixed-window' },
  { algorithm: 'token-bucket', extra: 50 },
  { algorithm: 'gcra', extra: 50 },
] as const)(
  'of a $algorithm limit, twenty clients use at least 98 percent, even on a machine that stalls now and then',
  async (how) => {
    const limit = { ...how, limit: 500, windowMs: 10_000 };
    const { used, denied } = await share(limit, { everyMs: 3_700, pauseMs: 800 });
    expect(used).toBeGreaterThanOrEqual(0.98);
    expect(denied).toBeLessThanOrEqual(0.001);
  },
);
