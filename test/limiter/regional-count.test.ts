// Where the checks of one request are counted, and what becomes of what was charged if another region says no.
import { describe, expect, it } from 'vitest';
import type { Outcome } from '../../src/core/check.ts';
import { answers, denies, fails, START_MS, useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { does, far, farther, near, open } from './regional-count-harness.ts';

useFakeTime();
const denied: Partial<Outcome> = { allowed: false, remaining: 0, retryAfterMs: 30_000 };

describe('what the nearest region has a part of', () => {
  it('is counted there with one call, up to that part', async () => {
    const { count, asked, leftIn, us } = open({ placed: [near(), place({ us: 9 }, { id: 'central' })] });
    const counted = await count({ withAnnouncement: true });
    expect(counted).toMatchObject({ regions: [us], missing: [], failure: undefined });
    expect(asked).toEqual(['us take near central with announcement']);
    expect(leftIn(us)).toBe(3);
  });

  it('is borrowed when it is used up, and the relief is told without asking for news again', async () => {
    const { count, asked, leftIn, us, eu } = open({ placed: [near()] });
    for (let i = 0; i < 4; i += 1) await count();
    asked.length = 0;
    us.does.announces = 'that';
    const counted = await count({ withAnnouncement: true });
    expect(counted).toMatchObject({
      results: [{ outcome: { allowed: true } }],
      heard: [{ announced: 'that', board: us.board }],
    });
    expect(asked).toEqual(['us take near with announcement', 'eu take near', 'us take near+1']);
    expect([leftIn(us), leftIn(eu)]).toEqual([0, 3]);
  });

  it('is used up by one caller as a whole, and then denied until the first region has room', async () => {
    const { count, leftIn, us, eu, ap } = open({ placed: [near()] });
    const admitted: boolean[] = [];
    for (let i = 0; i < 13; i += 1) {
      const counted = await count();
      admitted.push(counted.charged.length === 1);
    }
    expect(admitted).toEqual([...Array(12).fill(true), false]);
    expect([leftIn(us), leftIn(eu), leftIn(ap)]).toEqual([0, 0, 0]);
  });

  it('is asked for again no more often than there are regions, whatever lenders say', async () => {
    const { count, asked, us, eu } = open({ placed: [near()] });
    does(us, asked, denies(30_000));
    does(eu, asked, answers());
    expect(await count()).toMatchObject({ charged: [] });
    expect(asked.filter((line) => line.startsWith('us'))).toHaveLength(4);
    expect(asked.filter((line) => line.startsWith('eu'))).toHaveLength(3);
  });

  it.each([
    ['denies everything that it is asked', 5_000, 30_000, 5_000],
    ['has room later than the borrower', 50_000, 30_000, 30_000],
  ])('can be tried again when the first one has room: a lender %s', async (_, lenderMs, ownMs, retryMs) => {
    const { count, asked, us, eu, ap } = open({ placed: [near()] });
    does(us, asked, denies(ownMs));
    does(eu, asked, denies(60_000));
    does(ap, asked, denies(lenderMs));
    const counted = await count();
    expect(counted).toMatchObject({ results: [{ outcome: { allowed: false, retryAfterMs: retryMs } }] });
  });

  it.each([
    ['keeps to its part', { spill: false }],
    ['counts denied requests, and would have to be central', { countDenied: true }],
  ])('is not borrowed if the rule %s', async (_, rule) => {
    const { count, asked, us } = open({ placed: [place({ us: 4, eu: 4 }, { id: 'near', rule })] });
    does(us, asked, denies(30_000));
    expect(await count()).toMatchObject({ results: [{ outcome: { retryAfterMs: 30_000 } }] });
    expect(asked).toEqual(['us take near']);
  });

  it('is not borrowed if another rule denies too that cannot borrow: nobody is asked', async () => {
    const alone = place({ us: 9, eu: 9 }, { id: 'alone', rule: { spill: false } });
    const { count, asked, us } = open({ placed: [near(), alone] });
    does(us, asked, denies(30_000));
    await count();
    expect(asked).toEqual(['us take near alone']);
  });

  it('is borrowed although a shadow rule would deny', async () => {
    const shadow = place({ us: 9 }, { id: 'shadow', log: true });
    const { count, asked, us } = open({ placed: [near(), shadow] });
    does(us, asked, async () => ({
      nowMs: START_MS,
      outcomes: [
        { ...admitted, ...denied },
        { ...admitted, ...denied },
      ],
    }));
    await count();
    expect(asked[1]).toBe('eu take near');
  });

  it('is counted by the next region if the nearest one is down: by its own part', async () => {
    const placed = [place({ us: 4, eu: 7 }, { id: 'near' })];
    const { count, asked, us, eu } = open({ placed });
    does(us, asked, fails('unavailable'));
    const counted = await count();
    expect(counted).toMatchObject({
      failure: 'unavailable',
      missing: [],
      results: [{ check: { limit: 7, region: 'eu' }, outcome: { remaining: 6 } }],
    });
    expect([asked, counted.unanswered]).toEqual([['us take near', 'eu take near'], [us.store]]);
    expect(counted.regions).toEqual([eu]);
  });

  it('is missing if the region that alone can count it is down', async () => {
    const central = place({ us: 9 }, { id: 'central' });
    const { count, asked, us } = open({ placed: [near(), central] });
    does(us, asked, fails('bad-reply'));
    const counted = await count();
    expect(counted).toMatchObject({ failure: 'bad-reply', missing: [{ id: 'central', limit: 9 }] });
    expect(asked).toEqual(['us take near central', 'eu take near']);
  });
});

const admitted = {
  allowed: true,
  remaining: 1,
  resetAtMs: START_MS,
  retryAfterMs: 0,
  granted: 0,
  delayMs: 0,
};

describe('what another region alone can count', () => {
  it('is asked for only after the nearest region has allowed, and both are charged', async () => {
    const [one, other] = [near(), far()];
    const { count, asked, leftIn, us, eu } = open({ placed: [one, other] });
    const counted = await count({ withAnnouncement: true });
    expect(asked).toEqual(['us take near with announcement', 'eu take far']);
    expect([leftIn(us, one), leftIn(eu, other)]).toEqual([3, 1]);
    expect(counted).toMatchObject({ charged: [{ check: { id: 'near' } }, { check: { id: 'far' } }] });
  });

  it('is not asked for if the nearest region denies', async () => {
    const { count, asked, us } = open({ placed: [place({ us: 4 }, { id: 'near' }), far()] });
    does(us, asked, denies(30_000));
    await count();
    expect(asked).toEqual(['us take near']);
  });

  it('is asked for news if it is asked first', async () => {
    const { count, asked } = open({ placed: [far(), farther()] });
    await count({ withAnnouncement: true });
    expect(asked).toEqual(['eu take far with announcement', 'ap take farther with announcement']);
  });

  it('denies the request: what was charged is given back, once, after the response, by the time of its charge', async () => {
    const placed = [near(), far(), farther()] as const;
    const { count, asked, settle, leftIn, us, eu, ap } = open({ placed });
    for (let i = 0; i < 2; i += 1) await count();
    does(eu, asked, denies(30_000));
    asked.length = 0;
    const counted = await count();
    expect(counted).toMatchObject({ missing: [] });
    await settle();
    // Farther had none left either: only what was charged is given back.
    expect(asked).toEqual(['us take near', 'eu take far', 'ap take farther', 'us refund near']);
    expect(us.calls.at(-1)?.checks).toMatchObject([{ chargedAtMs: START_MS, cost: 1, want: 0 }]);
    expect([leftIn(us, placed[0]), leftIn(ap, placed[2])]).toEqual([2, 0]);
  });

  it('gives back in every region that has charged', async () => {
    const placed = [near(), far(), farther()] as const;
    const { count, asked, settle, leftIn, us, eu, ap } = open({ placed });
    does(eu, asked, denies(30_000));
    await count();
    await settle();
    expect([leftIn(us, placed[0]), leftIn(ap, placed[2])]).toEqual([4, 2]);
  });

  it('gives nothing back of a region that denied: it has charged none of its rules', async () => {
    const placed = [near(), far(), place({ eu: 1 }, { id: 'least' })] as const;
    const { count, asked, settle, leftIn, eu } = open({ placed });
    for (let i = 0; i < 2; i += 1) await count();
    await settle();
    expect(asked.slice(2)).toEqual(['us take near', 'eu take far least', 'us refund near']);
    expect(leftIn(eu, placed[1])).toBe(1);
  });

  it('reports what could not be given back, and tries it once', async () => {
    const { count, asked, settle, errors, us, eu } = open({ placed: [near(), far()] });
    const { run } = us.does;
    us.does.run = (call, signal) => (call.operation === 'refund' ? fails('timeout')() : run(call, signal));
    does(eu, asked, denies(30_000));
    await count();
    await settle();
    expect([errors.length, us.calls.length]).toEqual([1, 1]);
  });

  it.each([
    ['by the region that is asked first', [near(), far()], [{ announced: 'that' }]],
    ['by all of them if none is', [far(), farther()], [{ announced: null }, { announced: 'this' }]],
  ] as const)('is charged whatever is announced, and that is told: %s', async (_, placed, heard) => {
    const { count, settle, us, eu, ap } = open({ placed });
    [us.does.announces, eu.does.announces, ap.does.announces] = ['that', null, 'this'];
    expect(await count({ withAnnouncement: true })).toMatchObject({
      heard,
      charged: placed.map(({ check }) => ({ check: { id: check.id } })),
    });
    await settle();
    expect([us, eu, ap].flatMap(({ calls }) => calls.map(({ operation }) => operation))).toEqual([
      'take',
      'take',
    ]);
  });

  it('says nothing of what is announced if that could not be read', async () => {
    const { count, us } = open({ placed: [near()] });
    us.does.announces = undefined;
    expect(await count({ withAnnouncement: true })).toMatchObject({ heard: [], charged: [{}] });
  });

  it('is missing if that region is down, and what was charged is told', async () => {
    const { count, asked, us, eu } = open({ placed: [near(), far()] });
    does(eu, asked, fails('unavailable'));
    const counted = await count();
    expect(counted).toMatchObject({
      failure: 'unavailable',
      charged: [{ check: { id: 'near' } }],
      missing: [{ id: 'far', limit: 2, region: 'eu' }],
    });
    expect([counted.regions, counted.unanswered]).toEqual([[us], [eu.store]]);
  });
});

describe('a peek', () => {
  it('never borrows', async () => {
    const { count, asked, us } = open({ placed: [near()] });
    does(us, asked, denies(30_000));
    await count({ operation: 'peek' });
    expect(asked).toEqual(['us peek near']);
  });

  it('looks in every region that counts something, and changes nothing', async () => {
    const { count, asked, settle } = open({ placed: [near(), far(), farther()] });
    const counted = await count({ operation: 'peek' });
    await settle();
    expect(counted).toMatchObject({ results: [{ outcome: { remaining: 4 } }, {}, {}] });
    expect(asked).toEqual(['us peek near', 'eu peek far', 'ap peek farther']);
  });

  it('looks there also if the nearest region has nothing left', async () => {
    const { count, asked, us } = open({ placed: [near(), far()] });
    does(us, asked, denies(30_000));
    expect(await count({ operation: 'peek' })).toMatchObject({
      results: [{ check: { id: 'near' } }, { check: { id: 'far' } }],
    });
  });

  it('gives nothing back, whatever another region says', async () => {
    const { count, asked, settle, eu } = open({ placed: [near(), far()] });
    does(eu, asked, denies(30_000));
    await count({ operation: 'peek' });
    await settle();
    expect(asked).toEqual(['us peek near', 'eu peek far']);
  });
});
