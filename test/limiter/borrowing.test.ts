// Who is asked to take over what another region has used, and for how much.
import { describe, expect, it, vi } from 'vitest';
import type { RuleCheck } from '../../src/core/plan.ts';
import { EVEN, openBorrowing, openLenders } from './lenders.ts';
import { answers, denies, fails, hangingRun, START_MS, useFakeTime } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion } from './model-regions.ts';
import { deniedIn, type Parts, place } from './placed.ts';
import type { RuleCheckShape } from './rule-checks.ts';

useFakeTime();
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);
describe('of several lenders', () => {
  it('the nearest is asked first, and no other if it lends', async () => {
    const { borrow, asked } = openLenders();
    expect((await borrow()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take']);
  });

  it.each([
    ['denies', denies(5_000)],
    ['fails', fails('unavailable')],
    ['cannot do it', fails('script-failed')],
  ])('the next is asked if the nearest %s', async (_, run) => {
    const { borrow, asked } = openLenders({ run });
    expect((await borrow()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take', '0 ap take']);
  });

  it('one that denied is not asked again before its retry time', async () => {
    const { borrow, asked, lenders } = openLenders({ run: denies(5_000) }, { run: denies(9_000) });
    await borrow();
    lenders[0].does.run = answers();
    passMs(4_999);
    expect((await borrow()).borrowed).toEqual({ kind: 'none', retryMs: 1, isCertain: true });
    expect(asked).toEqual(['0 eu take', '0 ap take']);
    passMs(1);
    expect((await borrow()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take', '0 ap take', '5000 eu take']);
  });

  it('one that denied is asked again by other rules', async () => {
    const { borrow, asked } = openLenders({ run: denies(5_000) }, { run: denies(5_000) });
    await borrow();
    await borrow({ era: 'next' });
    expect(asked).toHaveLength(4);
  });

  it('one that is a cluster is asked every time: there, charges may be taken back', async () => {
    const { borrow, asked } = openLenders({ run: denies(5_000), isCluster: true }, { run: denies(5_000) });
    await borrow();
    await borrow();
    expect(asked).toEqual(['0 eu take', '0 ap take', '0 eu take']);
  });

  it('one whose breaker is open is not asked until probes have closed it', async () => {
    const { borrow, asked, lenders } = openLenders();
    const [{ breaker, trip }] = lenders;
    trip();
    await borrow();
    passMs(1_000);
    expect(breaker.state(Date.now())).toBe('half-open');
    await borrow();
    for (let i = 0; i < 3; i += 1) breaker.succeed(breaker.probe(Date.now()) ?? -1, Date.now());
    await borrow();
    expect(asked).toEqual(['0 ap take', '1000 ap take', '1000 eu take']);
  });

  it('one that has no part of the limit is not asked', async () => {
    const { borrow, asked } = openLenders();
    await borrow({ denied: [deniedIn(place({ us: 100, ap: 100 }))] });
    expect(asked).toEqual(['0 ap take']);
  });

  it('the first to have room again says when to come back', async () => {
    const { borrow } = openLenders({ run: denies(7_000) }, { run: denies(5_000) });
    expect((await borrow()).borrowed).toEqual({ kind: 'none', retryMs: 5_000, isCertain: true });
  });

  it('none says when to come back if none has answered', async () => {
    const { borrow } = openLenders({ run: fails('unavailable') }, { run: fails('timeout') });
    const retryMs = Number.POSITIVE_INFINITY;
    expect((await borrow()).borrowed).toEqual({ kind: 'none', retryMs, isCertain: false });
  });
});

describe('that nothing is lent', () => {
  const trip: Broken = ({ lenders: [eu] }) => eu.trip();
  const fail: Broken = ({ lenders: [eu] }) => {
    eu.does.run = fails('unavailable');
  };
  const beTried: Broken = ({ lenders: [eu] }) => {
    eu.trip();
    passMs(1_000);
    for (let i = 0; i < 3; i += 1) eu.breaker.probe(Date.now());
  };
  type Broken = (opened: ReturnType<typeof openLenders>) => void;

  it.each([
    ['has an open breaker', trip],
    ['has not answered', fail],
    ['is being tried by others', beTried],
  ])('is not certain if a lender %s, although the others have denied', async (_, breaks) => {
    const opened = openLenders({}, { run: denies(5_000) });
    breaks(opened);
    const none = { kind: 'none', retryMs: 5_000, isCertain: false };
    expect((await opened.borrow()).borrowed).toEqual(none);
    // Nor by what is remembered of the others.
    expect((await opened.borrow()).borrowed).toEqual(none);
  });

  it('is not certain if the last of them has not answered', async () => {
    const { borrow } = openLenders({ run: denies(5_000) }, { run: fails('timeout') });
    expect((await borrow()).borrowed).toEqual({ kind: 'none', retryMs: 5_000, isCertain: false });
  });

  it('is certain if those that have a part have denied', async () => {
    const { borrow, lenders } = openLenders({ run: denies(5_000) }, {});
    lenders[1].trip();
    const denied = [deniedIn(place({ us: 100, eu: 100 }))];
    expect((await borrow({ denied })).borrowed).toEqual({ kind: 'none', retryMs: 5_000, isCertain: true });
  });
});

describe('shortly before a window ends', () => {
  // The way is taken for 100 ms: there, and the news of it back.
  it.each([
    ['fixed-window', 60_000, 200],
    ['sliding-window-counter', 60_000, 200],
    ['sliding-window-buckets', 6_000, 200],
    // In three quarters of each window there is time.
    ['fixed-window', 400, 100],
  ] as const)(
    '%s: nothing is borrowed that the lender would charge to the next one',
    async (algorithm, periodMs, soonMs) => {
      const windowMs = algorithm === 'sliding-window-buckets' ? 10 * periodMs : periodMs;
      const borrowAt = async (deniedAtMs: number) => {
        vi.setSystemTime(deniedAtMs);
        const { borrow } = openBorrowing([createModelRegion('eu')]);
        const denied = [deniedIn(place({ us: 100, eu: 100 }, { algorithm, windowMs }))];
        return (await borrow({ denied, deniedAtMs })).borrowed;
      };
      expect(START_MS % periodMs).toBe(0);
      expect(await borrowAt(START_MS - soonMs)).toEqual({ kind: 'none', retryMs: soonMs, isCertain: true });
      expect(await borrowAt(START_MS - soonMs - 1)).toMatchObject({ kind: 'lent' });
      expect(await borrowAt(START_MS)).toMatchObject({ kind: 'lent' });
    },
  );
});

describe('what is lent', () => {
  it('comes with the time of the denial and the whole limit', async () => {
    const { borrow } = openBorrowing([createModelRegion('eu')]);
    const placed = place({ us: 100, eu: 60 });
    const { borrowed } = await borrow({ denied: [deniedIn(placed)], deniedAtMs: START_MS + 3 });
    const relief = { units: 25, sinceMs: START_MS + 3, fullLimit: 160 };
    const check = { ...placed.check, limit: 100, region: 'us', relief };
    expect(borrowed).toEqual({ kind: 'lent', checks: [check], end: expect.any(Function) });
  });

  it('is no more than the lender has', async () => {
    const eu = createModelRegion('eu');
    const { borrow } = openBorrowing([eu]);
    const placed = place({ us: 100, eu: 10 });
    const { borrowed } = await borrow({ denied: [deniedIn(placed)] });
    expect(borrowed).toMatchObject({ kind: 'lent', checks: [{ relief: { units: 10, fullLimit: 110 } }] });
    expect(eu.peek({ ...placed.check, limit: 10 })?.remaining).toBe(0);
  });
});

/** What a lender is asked for: at least, and beyond that. */
const askedOf = ({ calls }: ModelRegion) =>
  calls.map(({ checks }) => checks.map(({ cost, want = 0 }) => [cost, want]));

describe('a lender is asked for', () => {
  const BURST = { algorithm: 'token-bucket' } as const;
  it.each<[string, Parts, RuleCheckShape & { remaining?: number }, readonly [number, number]]>([
    ['a quarter of what was used', { us: 100, eu: 100 }, {}, [1, 24]],
    ['a quarter, rounded up', { us: 99, eu: 100 }, {}, [1, 24]],
    ['a hundredth of its own part at least', { us: 100, eu: 1_000 }, {}, [10, 15]],
    ['a hundredth of its own part, rounded down', { us: 100, eu: 199 }, {}, [1, 24]],
    ['no more than was used, however large its part', { us: 7, eu: 9_000 }, {}, [7, 0]],
    ['no less than the request costs', { us: 100, eu: 100 }, { cost: 30 }, [30, 0]],
    ['a quarter of what was used, without the rest', { us: 10, eu: 9 }, { cost: 3, remaining: 2 }, [3, 0]],
    ['a quarter of its burst, if it drains', { us: [1e3, 400], eu: [1e3, 60] }, BURST, [15, 85]],
    ['a quarter of its limit, if it drains and has no burst', { us: 400, eu: 60 }, BURST, [15, 85]],
    ['a quarter, rounded down', { us: [1e3, 400], eu: [1e3, 63] }, BURST, [15, 85]],
    ['a quarter, but not more than was used', { us: [1e3, 4], eu: [1e3, 60] }, BURST, [4, 0]],
    ['100 times what drains in 100 ms, if less', { us: [60, 400], eu: [60, 600] }, BURST, [20, 80]],
    ['100 times that, rounded down', { us: [60, 400], eu: [65, 600] }, BURST, [20, 80]],
    ['one more than the cost, if it drains', { us: [9, 9], eu: [9, 2] }, { ...BURST, cost: 2 }, [3, 0]],
    ['a quarter of a larger burst', { us: [90, 40], eu: [90, 8] }, { algorithm: 'gcra' }, [2, 8]],
    ['the same of a queue', { us: [90, 40], eu: [90, 8] }, { algorithm: 'leaky-bucket' }, [2, 8]],
    [
      'a hundredth of its limit, where extra is buckets',
      { us: [400, 6], eu: [400, 6] },
      { algorithm: 'sliding-window-buckets' },
      [4, 96],
    ],
  ])('%s', async (_, parts, { remaining = 0, ...shape }, [least, more]) => {
    const eu = createModelRegion('eu');
    await openBorrowing([eu]).borrow({ denied: [deniedIn(place(parts, shape), { remaining })] });
    expect(askedOf(eu)).toEqual([[[least, more]]]);
  });

  it('twice as much as last time if that was less than a quarter of the window ago, up to what was used', async () => {
    const eu = createModelRegion('eu');
    const { borrow } = openBorrowing([eu]);
    const denied = [deniedIn(place({ us: 100, eu: 1_000_000 }, { cost: 2 }))];
    const smaller = [deniedIn(place({ us: 100, eu: 190 }, { cost: 2 }))];
    for (const request of [{ denied: smaller }, { denied: smaller }]) {
      await borrow(request);
      passMs(14_999);
    }
    passMs(1);
    await borrow({ denied: smaller });
    await borrow({ denied });
    expect(askedOf(eu)).toEqual([[[2, 23]], [[2, 48]], [[2, 23]], [[100, 0]]]);
  });

  it('all that was used at most, however often it is doubled', async () => {
    const eu = createModelRegion('eu');
    const { borrow } = openBorrowing([eu]);
    const denied = [deniedIn(place({ us: 10, eu: 99 }))];
    for (let i = 0; i < 4; i += 1) await borrow({ denied });
    expect(askedOf(eu)).toEqual([[[1, 2]], [[1, 5]], [[1, 9]], [[1, 9]]]);
  });
});

describe('of what drains, a lender is asked for', () => {
  // Of all of it, 3 drain in 10 ms.
  const parts: Parts = { us: [6_000, 20_000], eu: [6_000, 20_000], ap: [6_000, 20_000] };
  const denied = [deniedIn(place(parts, { algorithm: 'token-bucket' }))];
  const leastOf = (lender: ModelRegion) => askedOf(lender).map(([check]) => check?.[0]);

  it('a hundred times what drains on the way, as long as it took last time', async () => {
    let delayMs = 10;
    const eu = createModelRegion('eu', () => delayMs);
    const { borrow } = openBorrowing([eu]);
    await borrow({ denied });
    delayMs = 15;
    await borrow({ denied });
    await borrow({ denied });
    expect(leastOf(eu)).toEqual([3_000, 960, 960]);
  });

  it('that by its own way, whatever that of another is', async () => {
    const [eu, ap] = [createModelRegion('eu', () => 10), createModelRegion('ap', () => 20)];
    const { borrow } = openBorrowing([eu]);
    for (const lender of [eu, ap, eu, ap]) await borrow({ denied, lenders: [lender] });
    expect([leastOf(eu), leastOf(ap)]).toEqual([
      [3_000, 960],
      [3_000, 1_920],
    ]);
  });

  it('as much as before if it has not answered: that says nothing about its way', async () => {
    const eu = createModelRegion('eu', () => 10);
    const { run } = eu.does;
    const { borrow } = openBorrowing([eu]);
    await borrow({ denied });
    eu.does.run = hangingRun;
    await borrow({ denied });
    eu.does.run = run;
    passMs(100);
    await borrow({ denied });
    expect(leastOf(eu)).toEqual([3_000, 960]);
  });
});

describe('several checks that are denied at once', () => {
  const [first, second] = [place(EVEN, { id: 'first' }), place({ us: 8, eu: 8 }, { id: 'second' })];
  const denied = [deniedIn(first), deniedIn(second)];
  const unitsOf = (checks: readonly RuleCheck[]) => checks.map(({ id, relief }) => [id, relief?.units]);

  it('are borrowed together, with one call', async () => {
    const eu = createModelRegion('eu');
    const { borrowed } = await openBorrowing([eu]).borrow({ denied });
    expect(borrowed.kind === 'lent' && unitsOf(borrowed.checks)).toEqual([
      ['first', 25],
      ['second', 2],
    ]);
    expect(eu.calls).toHaveLength(1);
  });

  it('are not borrowed from one that has no part of all of them', async () => {
    const ap = createModelRegion('ap');
    const { borrowed } = await openBorrowing([ap]).borrow({ denied });
    expect([borrowed.kind, ap.calls]).toEqual(['none', []]);
  });

  it('are not borrowed one by one: if the lender has nothing of one, it is charged for none', async () => {
    const eu = createModelRegion('eu');
    const there = { ...second.check, limit: 8, cost: 8 };
    await eu.does.run({ operation: 'take', checks: [there] }, AbortSignal.timeout(1));
    const { borrowed } = await openBorrowing([eu]).borrow({ denied });
    expect(borrowed).toEqual({ kind: 'none', retryMs: 60_000, isCertain: true });
    expect(eu.peek({ ...first.check, limit: 100 })?.remaining).toBe(100);
  });
});

describe('a lender that hangs', () => {
  it('costs half of what is left of the deadline', async () => {
    const { borrow, asked } = openLenders({ run: hangingRun });
    const { borrowed, tookMs } = await borrow();
    expect([borrowed.kind, tookMs]).toEqual(['lent', 128]);
    expect(asked).toEqual(['0 eu take', '128 ap take']);
  });

  it('leaves the next one half of the rest, and the borrower as much', async () => {
    const { borrow, asked } = openLenders({ run: hangingRun }, { run: hangingRun });
    const { borrowed, tookMs } = await borrow();
    expect([borrowed.kind, tookMs]).toEqual(['none', 192]);
    expect(asked).toEqual(['0 eu take', '128 ap take']);
  });
});
