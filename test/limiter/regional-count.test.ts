// Where the checks of one request are counted, and what becomes of charges if another region denies.
import { describe, expect, it, vi } from 'vitest';
import type { Conclusion } from '../../src/limiter/count.ts';
import { denies, fails, LATE_MS, START_MS } from './fake-regions.ts';
import { useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { does, far, farther, near, open, transfersNothing } from './regional-count-harness.ts';

useFakeTime();
const remainingOf = ({ results }: Conclusion) => results.map(({ outcome }) => outcome.remaining);
const isAdmitted = ({ charged }: { readonly charged: readonly unknown[] }) => charged.length === 1;
const takesOf = (lines: readonly string[]) => lines.filter((line) => line.includes(' take '));

describe('a check that the nearest region has a part of', () => {
  it('is counted there with one call, up to that part', async () => {
    const { count, asked, leftIn, us } = open({
      placed: [near(), place({ us: 9 }, { id: 'central', at: 'us' })],
    });
    const counted = await count({ withAnnouncement: true });
    expect(counted).toMatchObject({ regions: [us], missing: [], failure: undefined });
    expect(asked).toEqual(['us take near central with announcement']);
    expect(leftIn(us)).toBe(3);
  });

  it.each([
    ['after other regions have transferred their parts', true, Array(12).fill('us take near')],
    [
      'even if other regions transfer nothing and count it themselves',
      false,
      [...Array(5).fill('us take near'), ...Array(5).fill('eu take near'), ...Array(4).fill('ap take near')],
    ],
  ])('lets one caller use the whole limit, counting down one by one, %s', async (_, transfers, takes) => {
    const { count, asked, settle, eu, ap } = open({ placed: [near()] });
    if (!transfers) for (const region of [eu, ap]) transfersNothing(region);
    for (let left = 11; left >= 0; left -= 1) {
      const counted = await count();
      expect(remainingOf(counted)).toEqual([left]);
      expect(isAdmitted(counted)).toBe(true);
      await settle();
    }
    expect(takesOf(asked)).toEqual(takes);
  });

  it('is denied by an owner that has every part, without a far call', async () => {
    const { count, said, settle } = open({ placed: [near()] });
    for (let i = 0; i < 12; i += 1) await count().then(settle);
    said();
    expect(await count()).toMatchObject({ charged: [], results: [{ outcome: { allowed: false } }] });
    expect(said()).toEqual(['us take near']);
    await count();
    expect(said()).toEqual([]);
  });

  it('is admitted by a region that has room, and the nearest region is not asked while it has none', async () => {
    const { count, said, settle, leftIn, us, eu, ap } = open({ placed: [near()] });
    for (const region of [eu, ap]) transfersNothing(region);
    for (let i = 0; i < 4; i += 1) await count().then(settle);
    said();
    const counted = await count({ withAnnouncement: true });
    expect(counted.charged).toMatchObject([{ check: { limit: 4, region: 'eu' } }]);
    expect(remainingOf(counted)).toEqual([7]);
    expect(takesOf(said())).toEqual(['us take near with announcement', 'eu take near']);
    await count();
    expect(takesOf(said())).toEqual(['eu take near']);
    expect([leftIn(us), leftIn(eu), leftIn(ap)]).toEqual([0, 2, 4]);
  });

  it.each([
    // The isolate first asks each far region for its part, which takes a while.
    ['a far region', [30_000, 60_000, 5_000], 5_000, 2 * LATE_MS],
    ['the nearest region', [30_000, 50_000, 40_000], 30_000, 0],
  ])(
    'is denied once by all regions, and then from memory until the first has room: %s',
    async (_, [usMs = 0, euMs = 0, apMs = 0], retryMs, lateMs) => {
      const { count, knownDenial, said, asked, us, eu, ap } = open({ placed: [near()] });
      does(us, asked, denies(usMs));
      does(eu, asked, denies(euMs));
      does(ap, asked, denies(apMs));
      expect(await count()).toMatchObject({
        results: [{ outcome: { allowed: false, retryAfterMs: retryMs } }],
      });
      expect(takesOf(said())).toEqual(['us take near', 'eu take near', 'ap take near']);
      vi.setSystemTime(START_MS + lateMs + retryMs - 1);
      expect(knownDenial()).toMatchObject([{ outcome: { allowed: false, retryAfterMs: 1 } }]);
      await count();
      expect(takesOf(said())).toEqual([]);
      vi.setSystemTime(START_MS + lateMs + retryMs);
      expect(knownDenial()).toBeUndefined();
      await count();
      expect(takesOf(said())).toHaveLength(1);
    },
  );

  it.each([
    ['has not answered', false],
    ['has an open breaker', true],
  ])('is denied if a region that may have room %s, but the denial is not remembered', async (_, isOpen) => {
    const { count, knownDenial, asked, us, eu, ap } = open({ placed: [near()] });
    for (const region of [us, ap]) does(region, asked, denies(30_000));
    does(eu, asked, fails('unavailable'));
    if (isOpen) eu.trip();
    expect(await count()).toMatchObject({ missing: [], results: [{ outcome: { allowed: false } }] });
    expect(knownDenial()).toBeUndefined();
  });

  it('stays in the nearest region if the rule does not spill, unless that region is down', async () => {
    const kept = place({ us: 4, eu: 4 }, { id: 'near', rule: { spill: false } });
    const { count, said, settle, asked, us } = open({ placed: [kept] });
    for (let i = 0; i < 5; i += 1) expect(isAdmitted(await count())).toBe(i < 4);
    await settle();
    expect(said()).toEqual(Array(5).fill('us take near'));
    vi.setSystemTime(START_MS + 60_000);
    does(us, asked, fails('unavailable'));
    expect(await count()).toMatchObject({ failure: 'unavailable', charged: [{ check: { region: 'eu' } }] });
    expect(said()).toEqual(['us take near', 'eu take near']);
  });

  it('reports what is left of that part if the rule does not spill', async () => {
    const kept = place({ us: 4, eu: 4 }, { id: 'near', rule: { spill: false } });
    expect(remainingOf(await open({ placed: [kept] }).count())).toEqual([3]);
  });

  it('is not sent to another region if a rule that does not spill denies, too', async () => {
    const alone = place({ us: 9, eu: 9 }, { id: 'alone', rule: { spill: false } });
    const { count, asked, us } = open({ placed: [near(), alone] });
    does(us, asked, denies(30_000));
    await count();
    expect(takesOf(asked)).toEqual(['us take near alone']);
  });

  it('is counted in another region if it is denied, while the nearest region counts the other checks', async () => {
    const other = place({ us: 8, eu: 8 }, { id: 'other' });
    const placed = [near(), other];
    const { count, said, settle, leftIn, us, eu, ap } = open({ placed });
    for (const region of [eu, ap]) transfersNothing(region);
    for (let i = 0; i < 4; i += 1) await count().then(settle);
    said();
    expect(await count()).toMatchObject({ charged: [{ check: { id: 'near' } }, { check: { id: 'other' } }] });
    expect(takesOf(said())).toEqual(['us take near other', 'eu take near', 'us take other']);
    expect([leftIn(us, other), leftIn(eu, near())]).toEqual([3, 3]);
  });

  it('is counted in another region even if a shadow rule would deny', async () => {
    const shadow = place({ us: 1 }, { id: 'shadow', isShadow: true, at: 'us' });
    const { count, settle, eu, ap } = open({ placed: [near(), shadow] });
    for (const region of [eu, ap]) transfersNothing(region);
    for (let i = 0; i < 5; i += 1) {
      expect(await count()).toMatchObject({ results: [{ outcome: { allowed: true } }, {}] });
      await settle();
    }
  });

  it('is counted by the next region, with the part of that region, if the nearest one is down', async () => {
    const placed = [place({ us: 4, eu: 7 }, { id: 'near' })];
    const { count, asked, us, eu } = open({ placed });
    does(us, asked, fails('unavailable'));
    const counted = await count();
    expect(counted).toMatchObject({
      failure: 'unavailable',
      missing: [],
      results: [{ check: { limit: 7, region: 'eu' } }],
    });
    expect(asked).toEqual(['us take near', 'eu take near']);
    expect(counted.regions).toEqual([eu]);
  });

  it('makes no region transfer its part to a nearest region that is down', async () => {
    const { count, asked, settle, us } = open({ placed: [near()] });
    does(us, asked, fails('unavailable'));
    for (let i = 0; i < 4; i += 1) await count();
    await settle();
    expect(asked.filter((line) => line.includes('transfer'))).toEqual([]);
  });

  it('asks for the announcement until a region answers', async () => {
    const { count, asked, us, eu } = open({ placed: [near()] });
    does(us, asked, fails('unavailable'));
    eu.does.announces = 'that';
    expect(await count({ withAnnouncement: true })).toMatchObject({
      announced: { announced: 'that', pointer: eu.pointer },
    });
    expect(asked).toEqual(['us take near with announcement', 'eu take near with announcement']);
  });

  it('is missing if the only region that can count it is down', async () => {
    const central = place({ us: 9 }, { id: 'central', at: 'us' });
    const { count, asked, us } = open({ placed: [near(), central] });
    does(us, asked, fails('bad-reply'));
    const counted = await count();
    expect(counted).toMatchObject({ failure: 'bad-reply', missing: [{ id: 'central', limit: 9 }] });
    expect(takesOf(asked)).toEqual(['us take near central', 'eu take near']);
  });
});

describe('a check that only another region can count', () => {
  it('is sent at the same time as a near check, and both are charged', async () => {
    const [one, other] = [near(), far()];
    const { count, asked, leftIn, us, eu } = open({ placed: [one, other], farMs: () => 40 });
    const counted = await count({ withAnnouncement: true });
    expect(asked).toEqual(['us take near with announcement', 'eu take far']);
    expect([leftIn(us, one), leftIn(eu, other), counted.tookMs]).toEqual([3, 1, 80]);
    expect(counted).toMatchObject({ charged: [{ check: { id: 'near' } }, { check: { id: 'far' } }] });
  });

  it('gets the time that the distance takes, even beyond the deadline of near calls', async () => {
    const { count, said } = open({ placed: [far()], farMs: () => 200 });
    for (let i = 0; i < 2; i += 1) expect(await count()).toMatchObject({ charged: [{}], tookMs: 400 });
    expect(said()).toEqual(['eu take far', 'eu take far']);
  });

  it('is missing until a measurement after the response finds its region more than a second away', async () => {
    const { count, settle, eu } = open({ placed: [far()], farMs: () => 600 });
    expect(await count()).toMatchObject({ missing: [{ id: 'far' }], failure: 'timeout', tookMs: 1_000 });
    await settle();
    expect(eu.breaker.state(Date.now())).toBe('closed');
    expect(await count()).toMatchObject({ charged: [{}], tookMs: 1_200 });
  });

  it('if denied, refunds the near charge once, after the response, by the time of the charge', async () => {
    const placed = [near(), far(), farther()] as const;
    const { count, said, settle, leftIn, us, ap } = open({ placed });
    for (let i = 0; i < 2; i += 1) await count();
    await settle();
    said();
    expect(await count()).toMatchObject({ missing: [], results: [{}, {}, {}] });
    await settle();
    // The two far counters had no unit left, so only the near charge is given back.
    expect(takesOf(said())).toEqual(['us take near', 'eu take far', 'ap take farther']);
    const refunds = us.calls.filter(({ operation }) => operation === 'refund');
    expect(refunds).toMatchObject([{ checks: [{ id: 'near', chargedAtMs: START_MS + 10, cost: 1 }] }]);
    expect([leftIn(us, placed[0]), leftIn(ap, placed[2])]).toEqual([2, 0]);
  });

  it('refunds the charges of every region if it is denied', async () => {
    const placed = [near(), far(), farther()] as const;
    const { count, asked, settle, leftIn, us, eu, ap } = open({ placed });
    does(eu, asked, denies(30_000));
    await count();
    await settle();
    expect([leftIn(us, placed[0]), leftIn(ap, placed[2])]).toEqual([4, 2]);
  });

  it('refunds nothing in the region that denied it, which has charged none of its rules', async () => {
    const placed = [near(), far(), place({ eu: 1 }, { id: 'least', at: 'eu' })] as const;
    const { count, said, settle, leftIn, eu } = open({ placed });
    await count();
    await settle();
    said();
    await count();
    await settle();
    expect(said().filter((line) => !line.includes('transfer'))).toEqual([
      'us take near',
      'eu take far least',
      'us refund near',
    ]);
    expect(leftIn(eu, placed[1])).toBe(1);
  });

  it('reports a failed refund, and does not try it again', async () => {
    const { count, asked, settle, errors, us, eu } = open({ placed: [near(), far()] });
    const { run } = us.does;
    us.does.run = (call, signal) => (call.operation === 'refund' ? fails('timeout')() : run(call, signal));
    does(eu, asked, denies(30_000));
    await count();
    await settle();
    expect([errors.length, us.calls.length]).toEqual([1, 1]);
  });

  it('brings no announcement if the call could not read one', async () => {
    const { count, us } = open({ placed: [near()] });
    us.does.announces = undefined;
    expect(await count({ withAnnouncement: true })).toMatchObject({ announced: undefined, charged: [{}] });
  });

  it('is missing if its region is down, and the charges of the nearest region are reported', async () => {
    const { count, asked, us, eu } = open({ placed: [near(), far()] });
    does(eu, asked, fails('unavailable'));
    const counted = await count();
    expect(counted).toMatchObject({
      failure: 'unavailable',
      charged: [{ check: { id: 'near' } }],
      missing: [{ id: 'far', limit: 2, region: 'eu' }],
    });
    expect(counted.regions).toEqual([us]);
  });
});
