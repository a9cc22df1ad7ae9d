// Which denials hold until their retry time, and which do not because something could still be lent; and how a region
// that borrows takes its turn.
import { describe, expect, it } from 'vitest';
import type { Borrowed, Borrowing, BorrowRequest } from '../../src/limiter/borrowing.ts';
import type { Counted } from '../../src/limiter/regional-count.ts';
import { answers, denies, fails, useFakeTime } from './limiter-harness.ts';
import { place } from './placed.ts';
import { does, near, open } from './regional-count-harness.ts';

useFakeTime();

/** Of each check that denies, whether that is final. */
const finalOf = (counted: Counted) =>
  Object.fromEntries(
    counted.results.flatMap(({ check, outcome, isFinal }) => (outcome.allowed ? [] : [[check.id, isFinal]])),
  );

describe('a denial is final', () => {
  it('if all lenders have denied', async () => {
    const { count, asked, us, eu, ap } = open({ placed: [near()] });
    for (const region of [us, eu, ap]) does(region, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ near: true });
    // And if that is only remembered.
    expect(finalOf(await count())).toEqual({ near: true });
    expect(asked).toEqual(['us take near', 'eu take near', 'ap take near', 'us take near']);
  });

  it.each([
    ['that keeps to its parts', place({ us: 4, eu: 4 }, { id: 'near', rule: { spill: false } })],
    ['that is counted there alone', place({ us: 4 }, { id: 'near' })],
  ])('of a rule %s', async (_, one) => {
    const { count, asked, us } = open({ placed: [one] });
    does(us, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ near: true });
  });

  it('if the region that alone can count it has denied', async () => {
    const { count, asked, eu } = open({ placed: [place({ eu: 2 }, { id: 'far' })] });
    does(eu, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ far: true });
  });
});

describe('a denial is not final', () => {
  it('if there were as many loans as there may be: the next may be enough', async () => {
    const { count, asked, us, eu } = open({ placed: [near()] });
    does(us, asked, denies(30_000));
    does(eu, asked, answers());
    expect(finalOf(await count())).toEqual({ near: false });
    expect(asked.filter((line) => line.startsWith('eu'))).toHaveLength(3);
  });

  it('if others were faster ten times', async () => {
    const { borrowing, requests } = borrowingThat(async () => ({ kind: 'again' }));
    const { count, asked, us } = open({ placed: [near()], borrowing });
    does(us, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ near: false });
    expect([requests.length, asked]).toEqual([10, Array(11).fill('us take near')]);
  });

  it.each([
    ['has not answered', false],
    ['has an open breaker', true],
  ])('if a lender %s, although the others have denied', async (_, isOpen) => {
    const { count, asked, us, eu, ap } = open({ placed: [near()] });
    for (const region of [us, ap]) does(region, asked, denies(30_000));
    does(eu, asked, fails('unavailable'));
    if (isOpen) eu.trip();
    expect(finalOf(await count())).toEqual({ near: false });
  });

  it('if another rule denies too that cannot borrow, whose own denial is', async () => {
    const alone = place({ us: 9, eu: 9 }, { id: 'alone', rule: { spill: false } });
    const { count, asked, us } = open({ placed: [near(), alone] });
    does(us, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ near: false, alone: true });
  });

  it('if a lender has nothing of another rule that denies too, but may have of this one', async () => {
    const other = place({ us: 4, eu: 4 }, { id: 'other' });
    const { count, asked, us, eu } = open({ placed: [near(), other], regions: ['us', 'eu'] });
    does(us, asked, denies(30_000));
    await eu.store.run(
      { operation: 'take', checks: [{ ...other.check, limit: 4, cost: 4 }] },
      AbortSignal.timeout(1),
    );
    expect(finalOf(await count())).toMatchObject({ near: false });
  });

  it('if no lender has a part of all rules that deny, but one has of this one', async () => {
    const other = place({ us: 4, ap: 4 }, { id: 'other' });
    const { count, asked, us } = open({ placed: [place({ us: 4, eu: 4 }, { id: 'near' }), other] });
    does(us, asked, denies(30_000));
    expect(finalOf(await count())).toEqual({ near: false, other: false });
  });
});

/** It borrows as it is told, and keeps what it was asked. */
function borrowingThat(borrow: (request: BorrowRequest) => Promise<Borrowed>) {
  const requests: BorrowRequest[] = [];
  const marks = { now: 0 };
  const borrowing: Borrowing = {
    mark: () => marks.now,
    borrow(request) {
      requests.push(request);
      return borrow(request);
    },
  };
  return { borrowing, requests, marks };
}

describe('a region that borrows', () => {
  const lends =
    (end: () => void) =>
    async ({ denied }: BorrowRequest): Promise<Borrowed> => ({
      kind: 'lent',
      checks: denied.map(({ result }) => result.check),
      end,
    });

  it('says what the mark was before it was asked, each time', async () => {
    const { borrowing, requests, marks } = borrowingThat(async () => ({ kind: 'again' }));
    const { count, asked, us } = open({ placed: [near()], borrowing });
    does(us, asked, async (...call) => {
      marks.now += 1;
      return asked.length < 4 ? denies(30_000)(...call) : answers()(...call);
    });
    await count();
    expect(requests.map(({ mark }) => mark)).toEqual([0, 1, 2]);
  });

  it('ends the loan once it has answered, and not before', async () => {
    const { borrowing } = borrowingThat(lends(() => asked.push('end')));
    const { count, asked, us } = open({ placed: [near()], borrowing });
    does(us, asked, async (...call) => {
      const hasLoan = asked.length > 1;
      await Promise.resolve();
      if (hasLoan) asked.push('answers');
      return hasLoan ? answers()(...call) : denies(30_000)(...call);
    });
    await count();
    expect(asked).toEqual(['us take near', 'us take near', 'answers', 'end']);
  });

  it('ends the loan also if it has not answered', async () => {
    const { borrowing } = borrowingThat(lends(() => asked.push('end')));
    const { count, asked, us } = open({ placed: [near()], regions: ['us'], borrowing });
    does(us, asked, (...call) => (asked.length > 1 ? fails('timeout')() : denies(30_000)(...call)));
    // It was denied before: that stands, but it is not remembered.
    expect(await count()).toMatchObject({ missing: [], charged: [], results: [{ isFinal: false }] });
    expect(asked).toEqual(['us take near', 'us take near', 'end']);
  });
});
