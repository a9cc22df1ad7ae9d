// What an isolate finds out about regions after responses: whether a failed one is back, and whether a script that
// failed once fails for all requests. No request waits for it.
import { describe, expect, it, vi } from 'vitest';
import { PROBE_CHECKS } from '../../src/core/counting/counters.ts';
import {
  answers,
  type Behaviour,
  createRegion,
  createRegions,
  DEADLINE_MS,
  fails,
  hangingRun,
  hangs,
} from './fake-regions.ts';
import { openIsolate, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const probesIn = (lines: readonly string[]) => lines.filter((line) => line.endsWith('probe'));

describe('a region whose breaker is open', () => {
  it('is not probed before its time', async () => {
    const { regions, owner, asked } = createRegions({}, {});
    const { decide } = openIsolate(regions);
    owner.trip();
    for (const passedMs of [0, 999]) {
      vi.setSystemTime(Date.now() + passedMs);
      await decide();
    }
    expect(probesIn(asked)).toEqual([]);
  });

  it('is probed after a response, and no request waits for that', async () => {
    const { regions, owner, asked } = createRegions({ run: hangingRun }, {});
    const { decide } = openIsolate(regions);
    owner.trip();
    vi.setSystemTime(Date.now() + 1_000);
    for (let i = 0; i < 20; i += 1) {
      const { decision, tookMs } = await decide();
      expect([decision, tookMs]).toMatchObject([{ kind: 'counted', failedOver: 'breaker-open' }, 0]);
    }
    // Three requests probe at once, and the others do not.
    expect(probesIn(asked)).toEqual(Array(3).fill('1000 owner probe'));
  });

  it('is probed even if it is not the region that requests go to', async () => {
    const { regions, next, asked } = createRegions({}, {});
    const { decide, settle } = openIsolate(regions);
    next.trip();
    vi.setSystemTime(Date.now() + 1_000);
    await decide();
    await settle();
    expect(next.breaker.state(Date.now())).toBe('closed');
    expect(probesIn(asked)).toEqual(['1000 next probe', '1010 next probe', '1020 next probe']);
  });

  it('has as much time for a probe as for a request, and is left alone again if it does not answer', async () => {
    const { regions, owner, asked } = createRegions({ run: hangingRun }, {});
    const { decide } = openIsolate(regions);
    owner.trip();
    vi.setSystemTime(Date.now() + 1_000);
    await decide();
    await vi.advanceTimersByTimeAsync(DEADLINE_MS / 2 - 1);
    expect(owner.breaker.state(Date.now())).toBe('half-open');
    await vi.advanceTimersByTimeAsync(1);
    expect(owner.breaker.state(Date.now())).toBe('open');
    await vi.advanceTimersByTimeAsync(999);
    await decide();
    expect(probesIn(asked)).toHaveLength(1);
    await vi.advanceTimersByTimeAsync(1);
    await decide();
    expect(probesIn(asked)).toHaveLength(2);
  });

  it('is back after the probes of one request, however slow the traffic is', async () => {
    const { regions, owner } = createRegions({ run: fails('unavailable') });
    const { decide, settle } = openIsolate(regions);
    for (let i = 0; i < 5; i += 1) await decide();
    owner.does.run = answers();
    vi.setSystemTime(Date.now() + 600_000);
    expect((await decide()).decision).toMatchObject({ kind: 'degraded', reason: 'breaker-open' });
    await settle();
    expect((await decide()).decision).toMatchObject({ kind: 'counted' });
  });

  it('gets at most three probes at once, however many requests come', async () => {
    let [now, most] = [0, 0];
    const run: Behaviour['run'] = async (_, signal) => {
      now += 1;
      most = Math.max(most, now);
      return hangs(signal).finally(() => {
        now -= 1;
      });
    };
    const { regions, owner } = createRegions({ run });
    const { decide } = openIsolate(regions);
    owner.trip();
    for (let i = 0; i < 500; i += 1) {
      await vi.advanceTimersByTimeAsync(10);
      await decide();
    }
    expect(most).toBe(3);
  });

  it('is back even if its script fails, and the isolate reports the broken script', async () => {
    const { regions, owner } = createRegions({ run: fails('script-failed') }, {});
    const { decide, settle } = openIsolate(regions);
    owner.trip();
    vi.setSystemTime(Date.now() + 1_000);
    await decide();
    await settle();
    expect([owner.breaker.state(Date.now()), owner.reported[0]]).toEqual(['closed', 'broken: x']);
  });

  it('is back even if the probe has a bug', async () => {
    const { regions, owner } = createRegions({ run: () => Promise.reject(new TypeError('x')) }, {});
    const { decide, settle } = openIsolate(regions);
    owner.trip();
    vi.setSystemTime(Date.now() + 1_000);
    await decide();
    await settle();
    expect([owner.breaker.state(Date.now()), owner.reported[0]]).toEqual(['closed', 'TypeError: x']);
  });
});

describe('a script that failed for a request', () => {
  const isProbe: (call: Parameters<Behaviour['run']>[0]) => boolean = ({ checks }) => checks === PROBE_CHECKS;
  /** Fails for requests, and answers the probe with the given function. */
  const failing =
    (probe: Behaviour['run']): Behaviour['run'] =>
    (call, signal) =>
      isProbe(call) ? probe(call, signal) : fails('script-failed')();

  it('is reported as one failed call if the probe runs', async () => {
    const owner = createRegion('owner', { run: failing(answers()) });
    const { decide, settle } = openIsolate([owner]);
    await decide();
    expect(owner.reported).toEqual([]);
    await settle();
    expect(owner.reported).toEqual(['failed: x']);
  });

  it('is reported as a broken script if the probe fails, too', async () => {
    const owner = createRegion('owner', { run: fails('script-failed') });
    const { decide, settle } = openIsolate([owner]);
    await decide();
    await settle();
    expect(owner.reported).toEqual(['broken: x']);
  });

  it('is not reported at all if the probe is not answered', async () => {
    const owner = createRegion('owner', { run: failing(fails('unavailable')) });
    const { decide, settle } = openIsolate([owner]);
    await decide();
    await settle();
    expect(owner.reported).toEqual([]);
  });

  it('is probed once in ten seconds, and reported each time while it goes on failing', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('script-failed') });
    const { decide, settle } = openIsolate(regions);
    for (let i = 0; i < 200; i += 1) {
      await decide();
      await settle();
      await vi.advanceTimersByTimeAsync(100);
    }
    expect([owner.reported.length, probesIn(asked).length]).toEqual([2, 2]);
  });

  it('is not probed any more when it runs again', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('script-failed') });
    const { decide, settle } = openIsolate(regions);
    await decide();
    await settle();
    owner.does.run = answers();
    vi.setSystemTime(Date.now() + 60_000);
    await decide();
    await settle();
    expect([owner.reported.length, probesIn(asked).length]).toEqual([1, 1]);
  });

  it('never opens the breaker of its region, even if it fails on every call', async () => {
    const owner = createRegion('owner', { run: fails('script-failed') });
    const { decide, settle } = openIsolate([owner]);
    for (let i = 0; i < 50; i += 1) {
      expect((await decide()).decision).toMatchObject({ kind: 'degraded', reason: 'script-failed' });
      await settle();
    }
    expect(owner.breaker.state(Date.now())).toBe('closed');
  });
});
