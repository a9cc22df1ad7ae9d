// What an isolate counts, and when it flushes that.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createRandom } from '../../local/random.ts';
import type { Decision } from '../../src/core/decision.ts';
import { decisionOf, EVERY_MS, openTelemetry } from './harness.ts';

const rules = { rulesVersion: 'v1', isStale: false };

describe('a decision is counted', () => {
  it.each<[string, Decision]>([
    ['admitted', decisionOf()],
    ['denied', decisionOf({ allowed: false })],
    ['listed', { kind: 'listed', allowed: false, list: 'deny', ...rules }],
    ['unlimited', { kind: 'unlimited', allowed: true, ...rules }],
    ['unverified', { kind: 'unverified', allowed: false, credential: 'token', ...rules }],
    ['degraded', { kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' }],
  ])('as %s, by nearest region and route', async (result, decision) => {
    const { decide, flush, flushed } = openTelemetry();
    decide({ decision });
    await flush();
    expect(flushed()).toMatchObject({ [`requests\tus\tdefault\t${result}`]: 1 });
  });

  it.each([
    ['admitted', decisionOf({ remaining: 3 })],
    ['near-limit', decisionOf({ remaining: 2 })],
    ['denied', decisionOf({ allowed: false, remaining: 0 })],
    ['would-deny', decisionOf({ allowed: false, isShadow: true })],
  ])('by the result of each rule: %s', async (result, decision) => {
    const { decide, flush, flushed } = openTelemetry();
    decide({ decision });
    await flush();
    expect(flushed()).toMatchObject({ [`checks\tsearch\t${result}`]: 1 });
  });

  it('with the time that it took, in the smallest bucket that fits', async () => {
    const { state, decide, flush, flushed } = openTelemetry();
    for (const tookMs of [0, 0.25, 0.26, 10, 1_001]) decide({ startedAtMs: state.nowMs - tookMs });
    await flush();
    expect(flushed()).toMatchObject({
      'decision\tb0': 2,
      'decision\tb1': 1,
      'decision\tb5': 1,
      'decision\tb12': 1,
      'decision\tsum': 1_011_510,
    });
  });

  it('with the step and the reason, if it was degraded', async () => {
    const { decide, flush, flushed } = openTelemetry();
    decide({ incident: { reason: 'timeout', fallback: 'open' } });
    decide({ incident: { reason: 'breaker-open', fallback: 'next-region' } });
    decide({ incident: { reason: 'stale-rules' } });
    await flush();
    expect(flushed()).toMatchObject({
      'fallback\topen\ttimeout': 1,
      'fallback\tnext-region\tbreaker-open': 1,
      'fallback\tnone\tstale-rules': 1,
    });
  });

  it('under “other”, once there are two hundred names of rules', async () => {
    const { decide, sums } = openTelemetry();
    for (let i = 0; i < 250; i += 1) decide({ decision: decisionOf({ rule: { name: `rule ${i}` } }) });
    const all = Object.fromEntries(sums.take(1_000));
    expect(all['checks\tother\tadmitted']).toBe(50);
    expect(all['checks\trule 199\tadmitted']).toBe(1);
    expect(all).not.toHaveProperty('checks\trule 200\tadmitted');
  });
});

describe('an isolate reports', () => {
  it('its unused leases', async () => {
    const { decide, flush, batches } = openTelemetry();
    decide();
    await flush();
    expect(batches[0]?.report.leased).toEqual({ counters: 2, units: 30 });
  });

  it('its breakers, and for how long it could not confirm its rules', async () => {
    const { state, decide, flush, batches } = openTelemetry();
    state.breakers = { us: 'closed', eu: 'open' };
    decide({ decision: decisionOf({ decision: { isStale: true } }) });
    state.nowMs += 5_000;
    decide({ decision: decisionOf({ decision: { isStale: true } }) });
    await flush();
    decide();
    await flush();
    expect(batches.map(({ report }) => [report.breakers, report.rulesAgeMs])).toEqual([
      [{ us: 'closed', eu: 'open' }, 5_000],
      [{ us: 'closed', eu: 'open' }, 0],
    ]);
  });
});

describe('metrics are flushed', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('once in 25 seconds by an isolate that has few requests, even if no other request comes', async () => {
    const { state, decide, respond, later, batches } = openTelemetry();
    for (let i = 0; i < 10; i += 1) {
      decide();
      respond();
    }
    expect(later).toHaveLength(1);
    state.nowMs += EVERY_MS;
    await vi.advanceTimersByTimeAsync(EVERY_MS);
    expect(batches).toHaveLength(1);
    decide();
    respond();
    expect(later).toHaveLength(2);
  });

  it('every ten seconds by an isolate that has a thousand requests in that time', async () => {
    const { state, decide, respond, batches } = openTelemetry();
    for (let second = 0; second < 60; second += 1) {
      for (let i = 0; i < 1_000; i += 1) {
        decide();
        respond();
      }
      state.nowMs += 1_000;
      await vi.advanceTimersByTimeAsync(1_000);
    }
    expect(batches.length).toBeGreaterThanOrEqual(5);
    expect(batches.length).toBeLessThanOrEqual(6);
  });

  it('by another request, if the request that should have done it was dropped', () => {
    const { state, decide, respond, later } = openTelemetry();
    decide();
    respond();
    state.nowMs += EVERY_MS + 4_999;
    respond();
    expect(later).toHaveLength(1);
    state.nowMs += 1;
    respond();
    expect(later).toHaveLength(2);
  });
});

describe('a region that does not answer', () => {
  it('gets the same batch again, under the same number, when it is back', async () => {
    const { isDown, decide, flush, batches, errors, flushed } = openTelemetry({ regions: ['us', 'eu'] });
    isDown.add('us').add('eu');
    decide();
    await flush();
    decide();
    await flush();
    expect(batches).toEqual([]);
    isDown.clear();
    await flush();
    await flush();
    expect(batches.map(({ number }) => number)).toEqual([1, 2]);
    expect(flushed()).toMatchObject({ 'requests\tus\tdefault\tadmitted': 2 });
    expect(errors).toHaveLength(3);
  });

  it('is passed over while its breaker is open, and the next region gets the new batch', async () => {
    const { state, isDown, decide, flush, batches } = openTelemetry({ regions: ['us', 'eu'] });
    isDown.add('us');
    decide();
    await flush();
    state.breakers = { us: 'open' };
    decide();
    await flush();
    expect(batches.map(({ region, number }) => [region, number])).toEqual([['eu', 2]]);
    isDown.clear();
    state.breakers = {};
    await flush();
    expect(batches.map(({ region, number }) => [region, number])).toEqual([
      ['eu', 2],
      ['us', 1],
    ]);
  });

  it('never gets a batch that was not confirmed for fifty minutes, and the loss is counted', async () => {
    const { state, isDown, decide, flush, flushed } = openTelemetry();
    isDown.add('us');
    decide();
    await flush();
    state.nowMs += 50 * 60_000;
    isDown.clear();
    await flush();
    expect(flushed()).toEqual({ metricsLost: 1 });
  });
});

describe('while no region answers', () => {
  const REQUESTS = 'requests\tus\tdefault\tadmitted';
  const inPostgres = ({ records }: Pick<ReturnType<typeof openTelemetry>, 'records'>) =>
    records.flatMap(({ metrics }) => metrics?.sums ?? []).filter(([series]) => series === REQUESTS);

  it('the sums go to Postgres, with the report of the isolate', async () => {
    const telemetry = openTelemetry({ regions: ['us', 'eu'] });
    telemetry.state.breakers = { us: 'open', eu: 'open' };
    telemetry.decide();
    await telemetry.flush();
    const [batch] = telemetry.records.filter(({ metrics }) => metrics);
    expect(batch?.metrics).toMatchObject({ isolateId: 'isolate-1', report: { breakers: { us: 'open' } } });
    expect(inPostgres(telemetry)).toEqual([[REQUESTS, 1]]);
  });

  it('an isolate whose breakers are still closed holds back one batch for each region, and no more', async () => {
    const telemetry = openTelemetry({ regions: ['us', 'eu'] });
    telemetry.isDown.add('us').add('eu');
    for (let i = 0; i < 5; i += 1) {
      telemetry.decide();
      await telemetry.flush();
    }
    expect(inPostgres(telemetry)).toEqual([1, 2, 3].map(() => [REQUESTS, 1]));
  });

  it('a batch that Postgres did not accept comes again under its id, and holds no region back', async () => {
    const telemetry = openTelemetry();
    telemetry.state.breakers = { us: 'open' };
    telemetry.state.isQueueDown = true;
    telemetry.decide();
    await telemetry.flush();
    telemetry.state.breakers = {};
    telemetry.decide();
    await telemetry.flush();
    expect(telemetry.flushed()[REQUESTS]).toBe(1);
    telemetry.state.isQueueDown = false;
    await telemetry.flush();
    expect(inPostgres(telemetry)).toEqual([[REQUESTS, 1]]);
    const { id } = telemetry.records.find(({ metrics }) => metrics) ?? {};
    expect(telemetry.tried.filter((tried) => tried === id)).toHaveLength(3);
  });

  it('each request is counted in exactly one place, whatever fails and comes back', async () => {
    const random = createRandom(14);
    const telemetry = openTelemetry({ regions: ['us', 'eu'] });
    const regions = ['us', 'eu'];
    const ROUNDS = 300;
    for (let i = 0; i < ROUNDS; i += 1) {
      telemetry.state.isQueueDown = random() < 0.3;
      for (const name of regions) {
        if (random() < 0.5) telemetry.isDown.add(name);
        else telemetry.isDown.delete(name);
        telemetry.state.breakers[name] = random() < 0.5 ? 'open' : 'closed';
      }
      telemetry.decide();
      await telemetry.flush();
    }
    telemetry.isDown.clear();
    telemetry.state.breakers = {};
    telemetry.state.isQueueDown = false;
    for (let i = 0; i < 3; i += 1) await telemetry.flush();
    const stored = inPostgres(telemetry).reduce((sum, [, amount]) => sum + amount, 0);
    expect(stored).toBeGreaterThan(10);
    expect(stored + (telemetry.flushed()[REQUESTS] ?? 0)).toBe(ROUNDS);
  });
});
