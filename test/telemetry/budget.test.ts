// What telemetry may cost: Redis commands as Upstash bills them, counted by Redis itself.

import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { MetricsBatch, MetricsStore } from '../../src/core/ports/region.ts';
import { createTelemetrySums } from '../../src/core/telemetry/metrics.ts';
import { createClient } from '../../src/redis/client.ts';
import { createMetricsStore } from '../../src/redis/metrics-store.ts';
import { createCollector } from '../../src/telemetry/collect.ts';
import { createFlush, createSubjects } from '../../src/telemetry/flush.ts';
import { createTelemetry } from '../../src/telemetry/telemetry.ts';
import { startUpstash, type Upstash } from '../redis/lua-engine.ts';
import { decisionOf, EVERY_MS, START_MS } from './harness.ts';

const MINUTES = 5;

let upstash: Upstash;
beforeAll(async () => {
  upstash = await startUpstash('telemetry-budget');
});
afterAll(() => upstash.stop());
afterEach(() => void vi.useRealTimers());

/** What one isolate flushes in some minutes, on a clock of the test. */
async function flushed(requestsASecond: number): Promise<{ batches: MetricsBatch[]; requests: number }> {
  vi.useFakeTimers({ now: START_MS });
  const now = () => Date.now();
  const collected = createTelemetrySums(Math.random);
  const later: Promise<unknown>[] = [];
  const batches: MetricsBatch[] = [];
  const store: MetricsStore = {
    async flush(batch) {
      batches.push(batch);
      return [];
    },
    read: () => Promise.reject(new Error('nobody reads here')),
  };
  const flush = createFlush({
    ...collected,
    isolateId: () => `isolate-${requestsASecond}`,
    stores: new Map([['us', store]]),
    send: async () => {},
    createId: () => 'unused',
    subjects: createSubjects({ isHashed: false, key: 'a key of the test' }),
    onDenied: () => {},
    now,
    onError: () => {},
  });
  const breakers = () => ({ us: 'closed' });
  const leased = () => undefined;
  const telemetry = createTelemetry({
    collector: createCollector({ ...collected, now, clockMs: now }),
    ...{ collected, flush, breakers, leased, everyMs: EVERY_MS, now, clockMs: now },
  });
  const regions = [{ name: 'us', breaker: { state: () => 'closed' } }];
  const decisions = [decisionOf(), decisionOf({ allowed: false }), decisionOf({ rule: { name: 'login' } })];
  let requests = 0;
  for (let second = 0; second < 60 * MINUTES; second += 1) {
    while (requests < (second + 1) * requestsASecond) {
      const decision = decisions[requests % decisions.length] ?? decisionOf();
      telemetry.decided({ decision, region: 'us', route: 'default', caller: undefined, startedAtMs: now() });
      telemetry.flush(regions, (work) => void later.push(work));
      requests += 1;
    }
    await vi.advanceTimersByTimeAsync(1_000);
  }
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  await Promise.all(later);
  vi.useRealTimers();
  return { batches, requests };
}

/** What the batches of such an isolate cost on a real Redis. */
async function play(requestsASecond: number): Promise<{ commands: number; requests: number }> {
  const { batches, requests } = await flushed(requestsASecond);
  const store = createMetricsStore(createClient({ url: upstash.gateway.url, token: 'token' }));
  const before = (await upstash.gateway.stats()).billed;
  for (const batch of batches) await store.flush(batch, AbortSignal.timeout(5_000));
  return { commands: (await upstash.gateway.stats()).billed - before, requests };
}

describe('Redis commands for metrics', () => {
  it('are at most a hundredth of the requests, at 1,000 a second', async () => {
    const { commands, requests } = await play(1_000);
    expect(commands).toBeGreaterThan(0);
    expect(commands / requests).toBeLessThanOrEqual(0.01);
  });

  it.each([0.05, 0.5, 3])('are at most 10 a minute, at %d requests a second', async (requestsASecond) => {
    const { commands } = await play(requestsASecond);
    expect(commands).toBeGreaterThan(0);
    expect(commands / MINUTES).toBeLessThanOrEqual(10);
  });

  it('are none when nothing happens', async () => {
    expect((await play(0)).commands).toBe(0);
  });
});
