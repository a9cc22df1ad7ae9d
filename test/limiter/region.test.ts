import { describe, expect, it, vi } from 'vitest';
import { CounterStoreError } from '../../src/core/ports/region.ts';
import type { Ledger } from '../../src/limiter/ledger.ts';
import type { Regions } from '../../src/limiter/region.ts';
import {
  answers,
  type Behaviour,
  createRegion,
  createRegions,
  DEADLINE_MS,
  denies,
  fails,
  hangingRun,
  hangs,
} from './fake-regions.ts';
import { createCheck, createSource, openIsolate, snapshotOf, timed, useFakeTime } from './limiter-harness.ts';

useFakeTime();
const storesOf = ({ charges }: Ledger) => charges.map(({ store }) => store);
/** The census has nothing to do with decisions. */
const asking = (lines: readonly string[]) => lines.filter((line) => !/present|probe/.test(line));

describe('the nearest region', () => {
  it('is the only one that is asked if it answers', async () => {
    const { regions, owner, asked } = createRegions({}, {});
    const { decision, tookMs, ledger } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: undefined });
    expect(storesOf(ledger)).toEqual([owner.store]);
    expect([asking(asked), tookMs]).toEqual([['0 owner take'], 0]);
  });

  it('is the only one that is asked if it denies a rule that does not spill', async () => {
    const { regions, asked } = createRegions({ run: denies(1) }, {});
    const { decision } = await openIsolate(regions).decide({
      plan: async () => ({ kind: 'checks', checks: [createCheck({ spill: false })] }),
    });
    expect(decision).toMatchObject({ kind: 'counted', allowed: false, failedOver: undefined });
    expect(asking(asked)).toEqual(['0 owner take']);
  });
});

describe('the next region is asked', () => {
  it.each(['timeout', 'unavailable', 'bad-reply', 'script-failed'] as const)(
    'at once if the nearest one fails with %s, and the decision names the failure',
    async (failure) => {
      const { regions, next, asked } = createRegions({ run: fails(failure) }, {});
      const { decision, tookMs, ledger } = await openIsolate(regions).decide();
      expect(decision).toMatchObject({ kind: 'counted', allowed: true, failedOver: failure });
      expect(storesOf(ledger)).toEqual([next.store]);
      expect([asking(asked), tookMs]).toEqual([['0 owner take', '0 next take'], 0]);
    },
  );

  it('if the nearest one answers for fewer checks than it was given', async () => {
    const { regions, asked } = createRegions({ run: async () => ({ nowMs: 1, outcomes: [] }) }, {});
    const { decision } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'bad-reply' });
    expect(asking(asked)).toEqual(['0 owner take', '0 next take']);
  });

  it('and later refunds its charge', async () => {
    const { regions, asked } = createRegions({ run: fails('unavailable') }, {});
    const checks = [createCheck({ refundOnError: true })];
    const { ledger } = await openIsolate(regions).decide({
      plan: async () => ({ kind: 'checks', checks }),
    });
    await timed(() => ledger.refundError());
    expect(asking(asked)).toEqual(['0 owner take', '0 next take', '0 next refund']);
  });

  it('and its denial stands', async () => {
    const { regions } = createRegions({ run: fails('unavailable') }, { run: denies(1) });
    const { decision } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', allowed: false, failedOver: 'unavailable' });
  });

  it('and then the third one, and the reason stays the failure of the nearest one', async () => {
    const { owner, next, tell, asked } = createRegions(
      { run: fails('bad-reply') },
      { run: fails('unavailable') },
    );
    const third = createRegion('third', { tell });
    const { decision } = await openIsolate([owner, next, third]).decide();
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'bad-reply' });
    expect(asking(asked)).toEqual(['0 owner take', '0 next take', '0 third take']);
  });
});

describe('a region that hangs', () => {
  it('is given up after half of the deadline if there is another region', async () => {
    const { regions, asked } = createRegions({ run: hangingRun }, {});
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'timeout' });
    expect([asking(asked), tookMs]).toEqual([['0 owner take', '128 next take'], 128]);
  });

  it('is given up at the end of the deadline if there is no other region', async () => {
    const { regions } = createRegions({ run: hangingRun });
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'degraded', allowed: true, reason: 'timeout', fallback: 'open' });
    expect(tookMs).toBe(DEADLINE_MS);
  });

  it('is given up at the end of the deadline if the breaker of the other region is open', async () => {
    const { regions, next, asked } = createRegions({ run: hangingRun }, {});
    next.trip();
    expect(next.breaker.state(Date.now())).toBe('open');
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'degraded', reason: 'timeout' });
    expect([asking(asked), tookMs]).toEqual([['0 owner take'], DEADLINE_MS]);
  });

  it('is given up at the end of the deadline if the other region may only be probed', async () => {
    const { regions, next, asked } = createRegions({ run: hangingRun }, {});
    next.trip();
    vi.setSystemTime(Date.now() + 1_000);
    expect(next.breaker.state(Date.now())).toBe('half-open');
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect([decision, tookMs]).toMatchObject([{ kind: 'degraded', reason: 'timeout' }, DEADLINE_MS]);
    expect(asking(asked)).toEqual(['1000 owner take']);
  });

  it('leaves the rest of the deadline to the next region, and the third gets twice its known distance', async () => {
    const { owner, next, tell, asked } = createRegions({ run: hangingRun }, { run: hangingRun });
    const third = createRegion('third', { tell, run: hangingRun });
    third.distance.note(40);
    const { tookMs } = await openIsolate([owner, next, third]).decide();
    expect([asking(asked), tookMs]).toEqual([['0 owner take', '128 next take', '256 third take'], 336]);
  });
});

describe('a region that does not answer in time', () => {
  it.each([
    ['is blamed if it had twice the time that it usually takes', 128, 'open'],
    ['is not blamed if it had less than twice that time', 129, 'closed'],
  ])('%s', async (_, halfMs, state) => {
    const { owner, next, regions } = createRegions({ run: hangingRun }, { run: hangingRun });
    const { decide } = openIsolate(regions);
    next.distance.note(halfMs / 2);
    const { fitMs } = next.distance;
    const given = vi
      .spyOn(next.distance, 'fitMs')
      .mockImplementation((nearMs) => Math.min(128, fitMs(nearMs)));
    for (let i = 0; i < 5; i += 1) await decide();
    expect(given).toHaveBeenCalledTimes(5);
    expect([owner, next].map(({ breaker }) => breaker.state(Date.now()))).toEqual(['open', state]);
  });

  it('is not blamed while its distance is unknown, but measured after the response', async () => {
    const isFar: Behaviour['run'] = async (call, signal) => {
      await Promise.race([new Promise((resolve) => setTimeout(resolve, 300)), hangs(signal)]);
      return answers()(call, signal);
    };
    const { next, regions, asked } = createRegions({ run: hangingRun }, { run: isFar });
    const { decide, settle } = openIsolate(regions);
    expect((await decide()).decision).toMatchObject({ kind: 'degraded', reason: 'timeout' });
    await settle();
    expect(asked.filter((line) => line.includes('next probe'))).toEqual(['256 next probe']);
    expect(next.distance.ms()).toBe(310);
    // From now on, it gets the time that it needs.
    for (let i = 0; i < 6; i += 1)
      expect((await decide()).decision).toMatchObject({ kind: 'counted', allowed: true });
    expect(next.breaker.state(Date.now())).toBe('closed');
  });

  it('is blamed once it has also left the probe after the response unanswered', async () => {
    const { next, regions } = createRegions({ run: hangingRun }, { run: hangingRun });
    const { decide, settle } = openIsolate(regions);
    await decide();
    await settle();
    for (let i = 0; i < 5; i += 1) await decide();
    expect(next.breaker.state(Date.now())).toBe('open');
  });

  it('is blamed for any other failure, however little time it has had', async () => {
    const { next, regions } = createRegions({ run: hangingRun }, { run: fails('unavailable') });
    const { decide } = openIsolate(regions);
    for (let i = 0; i < 5; i += 1) await decide();
    expect(next.breaker.state(Date.now())).toBe('open');
  });
});

describe('a breaker', () => {
  it('that is open keeps its region from being asked', async () => {
    const { regions, owner, asked } = createRegions({}, {});
    owner.trip();
    const { decision } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({ kind: 'counted', failedOver: 'breaker-open' });
    expect(asking(asked)).toEqual(['0 next take']);
  });

  it('opens after five failures of its region, and closes after three answered probes', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('unavailable') }, {});
    const { decide, settle } = openIsolate(regions);
    for (let i = 0; i < 8; i += 1) await decide();
    expect(asked.filter((line) => line === '0 owner take')).toHaveLength(5);
    owner.does.run = answers();
    vi.setSystemTime(Date.now() + 1_000);
    expect((await decide()).decision).toMatchObject({ kind: 'counted', failedOver: 'breaker-open' });
    await settle();
    expect(owner.breaker.state(Date.now())).toBe('closed');
    expect((await decide()).decision).toMatchObject({ kind: 'counted', failedOver: undefined });
    const atOwner = asked.filter((line) => /^1\d\d\d owner (probe|take)/.test(line));
    expect(atOwner.map((line) => line.split(' ')[2])).toEqual(['probe', 'probe', 'probe', 'take']);
  });

  it('that is open in every region leaves the decision to the isolate, at once and without any call', async () => {
    const { regions, owner, next, asked } = createRegions({}, {});
    for (const region of [owner, next]) region.trip();
    const { decision, tookMs } = await openIsolate(regions).decide();
    expect(decision).toMatchObject({
      kind: 'degraded',
      allowed: true,
      reason: 'breaker-open',
    });
    expect([asked, tookMs]).toEqual([[], 0]);
  });

  it('stays closed when a script fails: the region is well', async () => {
    const { regions, owner, asked } = createRegions({ run: fails('script-failed') }, {});
    const { decide } = openIsolate(regions);
    for (let i = 0; i < 30; i += 1)
      expect((await decide()).decision).toMatchObject({ kind: 'counted', failedOver: 'script-failed' });
    expect(owner.breaker.state(Date.now())).toBe('closed');
    expect(asked.filter((line) => line === '0 owner take')).toHaveLength(30);
  });
});

describe('an isolate that has no rules yet', () => {
  const start = (owner: Parameters<typeof createRegions>[0], next: typeof owner) => {
    const { regions, asked } = createRegions(owner, next);
    return { ...startIn(regions), asked };
  };
  const startIn = (regions: Regions) => {
    const read: unknown[] = [];
    const source = createSource({
      current: () => undefined,
      async start(pointer) {
        read.push(await pointer.read(AbortSignal.abort()).catch((error: unknown) => error));
        return snapshotOf('first');
      },
    });
    return { ...openIsolate(regions, { source }), read };
  };

  it('reads the announcement of the nearest region', async () => {
    const { decide, read, asked } = start({ read: async () => 'at owner' }, {});
    expect((await decide()).decision).toMatchObject({ kind: 'counted', rulesVersion: 'first' });
    expect([read, asking(asked)]).toEqual([['at owner'], ['0 owner read', '0 owner take']]);
  });

  it.each([
    ['fails', fails('unavailable'), 0],
    ['hangs', hangs, 25],
  ])('reads the announcement of the next region if the nearest one %s', async (_, readAtOwner, atMs) => {
    const { decide, read, asked } = start({ read: readAtOwner }, { read: async () => 'next door' });
    await decide();
    expect([read, asked.slice(0, 2)]).toEqual([['next door'], ['0 owner read', `${atMs} next read`]]);
  });

  it('does not blame a silent region that had less than a quarter of the deadline', async () => {
    const { owner, next, tell } = createRegions({ read: hangs }, { read: hangs });
    const silent = (name: string) => createRegion(name, { tell, read: hangs });
    const regions: Regions = [owner, next, silent('third'), silent('fourth')];
    // They are so far away that each is waited for: half, a quarter, an eighth and an eighth of the deadline.
    for (const { distance } of regions) distance.note(DEADLINE_MS / 4);
    const { decide } = startIn(regions);
    for (let i = 0; i < 5; i += 1) await decide();
    const states = regions.map(({ breaker }) => breaker.state(Date.now()));
    expect(states).toEqual(['open', 'open', 'closed', 'closed']);
  });

  it('learns that no region answers, and still gets its rules', async () => {
    const { decide, read } = start({ read: fails('unavailable') }, { read: fails('timeout') });
    expect((await decide()).decision).toMatchObject({ kind: 'counted', rulesVersion: 'first' });
    expect(read).toEqual([new CounterStoreError('unavailable', 'no region answers')]);
  });
});
