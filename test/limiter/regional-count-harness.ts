// Regions on counters in memory, seen from `us`, a journal of what they are asked, and checks that are counted there.
import type { CounterCall } from '../../src/core/counter-store.ts';
import { type Borrowing, createBorrowing } from '../../src/limiter/borrowing.ts';
import { createDeadline } from '../../src/limiter/deadline.ts';
import { createKnownDenials } from '../../src/limiter/known-denials.ts';
import type { PlacedCheck } from '../../src/limiter/placed-checks.ts';
import type { Regions } from '../../src/limiter/region-ladder.ts';
import { type CountRequest, createRegionalCount } from '../../src/limiter/regional-count.ts';
import { DEADLINE_MS, settleAll, timed } from './limiter-harness.ts';
import { createModelRegion, type ModelRegion } from './model-regions.ts';
import { place } from './placed.ts';

const now = () => Date.now();

/** What a region was asked, in short: operation, ids, and what it was relieved of. */
const told = ({ operation, checks, withAnnouncement }: CounterCall) =>
  [
    operation,
    ...checks.map(({ id, relief }) => (relief ? `${id}+${relief.units}` : id)),
    ...(withAnnouncement ? ['with announcement'] : []),
  ].join(' ');

interface Setup {
  readonly placed: readonly PlacedCheck[];
  readonly regions?: readonly string[];
  readonly borrowing?: Borrowing;
}

/** Regions with `us` as the nearest, on counters in memory. */
export function open({
  placed,
  regions: names = ['us', 'eu', 'ap'],
  borrowing = createBorrowing({ denials: createKnownDenials(), now }),
}: Setup) {
  const asked: string[] = [];
  const regions = names.map((name) => {
    const region = createModelRegion(name);
    const { run } = region.does;
    region.does.run = (call, signal) => {
      asked.push(`${name} ${told(call)}`);
      return run(call, signal);
    };
    return region;
  });
  const later: Promise<unknown>[] = [];
  const errors: unknown[] = [];
  const countInRegions = createRegionalCount({
    now,
    borrowing,
    onError: (error) => void errors.push(error),
  });
  const count = async (changes: Partial<CountRequest> = {}) =>
    (
      await timed(() =>
        countInRegions({
          placed,
          regions: regions as unknown as Regions,
          operation: 'take',
          withAnnouncement: false,
          deadline: createDeadline(DEADLINE_MS, now),
          afterResponse: (work) => void later.push(work),
          era: 'era',
          ...changes,
        }),
      )
    ).decision;
  const [us, eu, ap] = regions as [ModelRegion, ModelRegion, ModelRegion];
  const settle = () => settleAll(later, regions);
  /** Of the first check or of that one, in that region. */
  const leftIn = (region: ModelRegion, one = placed[0]) =>
    one && region.peek({ ...one.check, limit: one.parts.get(region.name)?.limit ?? 1 })?.remaining;
  return { us, eu, ap, asked, errors, count, settle, leftIn };
}

/** From here on, the journal says what a region does instead of counting. */
export const does = (region: ModelRegion, asked: string[], run: ModelRegion['does']['run']) => {
  region.does.run = (call, signal) => {
    asked.push(`${region.name} ${told(call)}`);
    return run(call, signal);
  };
};
export const near = () => place({ us: 4, eu: 4, ap: 4 }, { id: 'near' });
export const far = () => place({ eu: 2 }, { id: 'far' });
export const farther = () => place({ ap: 2 }, { id: 'farther' });
