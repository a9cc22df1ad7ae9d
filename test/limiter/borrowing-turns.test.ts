// Of one isolate, one borrows at a time for a subject: how long others wait for it, and who takes again because of it.
import { describe, expect, it, vi } from 'vitest';
import type { CounterStore } from '../../src/core/counter-store.ts';
import type { Borrowed } from '../../src/limiter/borrowing.ts';
import { EVEN, openBorrowing, openLenders } from './lenders.ts';
import { answers, denies, fails, never, useFakeTime } from './limiter-harness.ts';
import { createModelRegion } from './model-regions.ts';
import { deniedIn, place } from './placed.ts';

useFakeTime();
const passMs = (ms: number) => vi.setSystemTime(Date.now() + ms);
const slow = () => createModelRegion('eu', () => 10);
const others = [
  ['subject', { key: '{test}:other' }],
  ['rule', { id: 'other' }],
] as const;
const end = ({ borrowed }: { readonly borrowed: Borrowed }) => {
  if (borrowed.kind !== 'lent') throw new Error('nothing was lent');
  borrowed.end();
};

const NOTHING = { kind: 'none', retryMs: Number.POSITIVE_INFINITY, isCertain: false };

describe('while one borrows', () => {
  it('the others wait until the borrower has been told, and take again', async () => {
    const eu = slow();
    const { hold } = openBorrowing([eu]);
    const holding = hold();
    const waiting = hold();
    setTimeout(async () => end(await holding), 52);
    const [one, other] = await Promise.all([holding, waiting]);
    expect([one.borrowed.kind, other.borrowed.kind, eu.calls.length]).toEqual(['lent', 'again', 1]);
    // They look every 5 ms.
    expect([one.tookMs, other.tookMs]).toEqual([20, 55]);
  });

  it.each(others)('one does not wait for another %s', async (_, shape) => {
    const eu = slow();
    const { hold } = openBorrowing([eu]);
    const both = await Promise.all([hold(), hold({ denied: [deniedIn(place(EVEN, shape))] })]);
    expect(both).toMatchObject([
      { borrowed: { kind: 'lent' }, tookMs: 20 },
      { borrowed: { kind: 'lent' }, tookMs: 20 },
    ]);
  });

  it.each<[string, CounterStore['run']]>([
    ['fails', fails('unavailable')],
    ['denies', denies(5_000)],
  ])('the others wait no longer than that if every lender %s', async (_, run) => {
    const after10Ms: typeof run = async (call, signal) => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      return run(call, signal);
    };
    const { hold } = openLenders({ run: after10Ms }, { run: after10Ms });
    const [one, other] = await Promise.all([hold(), hold()]);
    expect([one.borrowed.kind, other.borrowed.kind]).toEqual(['none', 'again']);
    expect([one.tookMs, other.tookMs]).toEqual([20, 20]);
  });

  it('one that is never heard of again holds up nobody beyond his deadline', async () => {
    const { borrow, lenders, asked } = openLenders({ run: never });
    void borrow().catch(() => {});
    await vi.advanceTimersByTimeAsync(0);
    const { borrowed, tookMs } = await borrow();
    // Too late to ask once more.
    expect([borrowed, tookMs]).toEqual([NOTHING, 255]);
    lenders[0].does.run = answers();
    expect((await borrow()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take', '256 eu take']);
  });

  it('a borrower that is never told holds up nobody beyond the deadline either', async () => {
    const { hold, asked } = openLenders();
    await hold();
    expect(await hold()).toEqual({ borrowed: NOTHING, tookMs: 255 });
    expect((await hold()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take', '256 eu take']);
  });

  it('and fails with a bug, the next may borrow at once', async () => {
    const { hold, lenders } = openLenders();
    vi.spyOn(lenders[0].breaker, 'state').mockImplementationOnce(() => {
      throw new Error('a bug');
    });
    expect(await hold().catch((error: Error) => error.message)).toBe('a bug');
    expect(await hold()).toMatchObject({ borrowed: { kind: 'lent' }, tookMs: 0 });
  });
});

describe('once a loan has ended', () => {
  it('whoever was denied before that takes again at once, and no lender is asked', async () => {
    const { borrow, mark, asked } = openLenders();
    const before = mark();
    await borrow();
    expect(await borrow({ mark: before })).toEqual({ borrowed: { kind: 'again' }, tookMs: 0 });
    expect(asked).toEqual(['0 eu take']);
  });

  it('whoever is denied after that borrows himself', async () => {
    const { borrow, asked } = openLenders();
    await borrow();
    expect((await borrow()).borrowed.kind).toBe('lent');
    expect(asked).toEqual(['0 eu take', '0 eu take']);
  });

  it('whoever was denied between two of them takes again because of the second', async () => {
    const { borrow, mark } = openLenders();
    await borrow();
    const between = mark();
    await borrow();
    expect((await borrow({ mark: between })).borrowed.kind).toBe('again');
  });

  it.each(others)('it is nothing to another %s', async (_, shape) => {
    const { borrow, mark } = openLenders();
    const before = mark();
    await borrow({ denied: [deniedIn(place(EVEN, shape))] });
    expect((await borrow({ mark: before })).borrowed.kind).toBe('lent');
  });

  it('that is remembered for ten seconds: no call takes longer', async () => {
    const { borrow, mark } = openLenders();
    const before = mark();
    await borrow();
    passMs(9_999);
    expect((await borrow({ mark: before })).borrowed.kind).toBe('again');
    passMs(1);
    expect((await borrow({ mark: before })).borrowed.kind).toBe('lent');
  });
});

describe('the mark', () => {
  it('grows when a loan ends, and not before', async () => {
    const { hold, mark } = openLenders();
    const before = mark();
    const held = await hold();
    expect(mark()).toBe(before);
    end(held);
    expect(mark()).toBe(before + 1);
  });

  it('stays if nothing was lent: the next asks the lenders again, wherever he was denied', async () => {
    const { borrow, mark, asked } = openLenders({ run: fails('unavailable') }, { run: fails('unavailable') });
    const before = mark();
    await borrow();
    expect(mark()).toBe(before);
    // Whoever has just not answered is left alone for a moment.
    expect((await borrow({ mark: before })).borrowed).toEqual(NOTHING);
    expect(asked).toHaveLength(2);
    vi.setSystemTime(Date.now() + 100);
    expect((await borrow({ mark: before })).borrowed.kind).toBe('none');
    expect(asked).toHaveLength(4);
  });
});
