// One isolate that borrows for `us`, in fake time, from lenders that do as they are told.
import { type BorrowRequest, createBorrowing } from '../../src/limiter/borrowing.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import { createKnownDenials } from '../../src/limiter/known-denials.ts';
import {
  createJournal,
  createRegion,
  DEADLINE_MS,
  type FakeRegion,
  START_MS,
  timed,
} from './limiter-harness.ts';
import { deniedIn, type Parts, place } from './placed.ts';

export const EVEN: Parts = { us: 100, eu: 100, ap: 100 };

export function openBorrowing(lenders: readonly FakeRegion[]) {
  const now = () => Date.now();
  const { borrow: ask, mark } = createBorrowing({ denials: createKnownDenials(), now });
  /** Leaves it to the test to end the loan. */
  const hold = async (request: Partial<BorrowRequest> = {}) => {
    const startedAtMs = Date.now();
    const holding = async () => {
      const borrowed = await ask({
        denied: [deniedIn(place(EVEN))],
        lenders,
        deadline: createDeadline(DEADLINE_MS, now),
        deniedAtMs: START_MS,
        mark: mark(),
        isolates: 1,
        era: 'era',
        ...request,
      });
      return { borrowed, tookMs: Date.now() - startedAtMs };
    };
    return (await timed(holding)).decision;
  };
  /** The borrower is told at once. */
  const borrow = async (request: Partial<BorrowRequest> = {}) => {
    const held = await hold(request);
    if (held.borrowed.kind === 'lent') held.borrowed.end();
    return held;
  };
  return { borrow, hold, mark };
}

/** Two lenders, `eu` before `ap`, that do as they are told; and what they were asked when. */
export function openLenders(...[eu, ap]: readonly Partial<Parameters<typeof createRegion>[1]>[]) {
  const { lines: asked, tell } = createJournal();
  const lenders = [createRegion('eu', { tell, ...eu }), createRegion('ap', { tell, ...ap })] as const;
  return { lenders, asked, ...openBorrowing(lenders) };
}
