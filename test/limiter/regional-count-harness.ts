// Regions on counters in memory, seen from `us`, with a journal of all calls, and checks that are counted there.
import type { PlacedCheck } from '../../src/core/regions/placement.ts';
import type { Conclusion, CountRequest } from '../../src/limiter/count.ts';
import { createLedger, type Ledger } from '../../src/limiter/ledger.ts';
import type { AnyCall } from '../shared/any-call.ts';
import { createCountingIsolate } from './counting-isolate.ts';
import { settleAll, timed } from './limiter-harness.ts';
import { createModelRegion, type DelayMs, type ModelRegion, seenFrom } from './model-regions.ts';
import { place } from './placed.ts';

const now = () => Date.now();

/** A short text for a call: operation and ids. */
const told = ({ operation, checks, withAnnouncement }: AnyCall) =>
  [operation, ...checks.map(({ id }) => id), ...(withAnnouncement ? ['with announcement'] : [])].join(' ');

interface Setup {
  readonly placed: readonly PlacedCheck[];
  readonly regions?: readonly string[];
  /** The one-way time to regions other than `us`. */
  readonly farMs?: DelayMs;
}

/** Regions on counters in memory, with `us` as the nearest. */
export function open({ placed, regions: names = ['us', 'eu', 'ap'], farMs = () => 0 }: Setup) {
  const asked: string[] = [];
  const regions = names.map((name) => {
    const region = createModelRegion(name, name === 'us' ? () => 0 : farMs);
    does(region, asked, region.does.run);
    return region;
  });
  const later: Promise<unknown>[] = [];
  const errors: unknown[] = [];
  const openIsolate = () => createCountingIsolate(now);
  const regional = openIsolate();
  const count = async (changes: Partial<CountRequest> & { readonly by?: typeof regional } = {}) => {
    const { by = regional, ledger = createLedger((error) => void errors.push(error)), ...request } = changes;
    const counted = await timed(() =>
      by.count({
        placed,
        regions: seenFrom(regions, 0),
        afterResponse: (work) => void later.push(work),
        ...request,
        ledger,
      }),
    );
    return { ...counted.decision, tookMs: counted.tookMs, charged: chargesIn(ledger, counted.decision) };
  };
  const knownDenial = (some = placed) =>
    regional.knownDenial({ placed: some, regions: seenFrom(regions, 0), announcement: 'announcement' });
  const [us, eu, ap] = regions as [ModelRegion, ModelRegion, ModelRegion];
  const settle = () => settleAll(later, regions);
  /** What is left of the first check, or of another one, in that region. */
  const leftIn = (region: ModelRegion, one = placed[0]) =>
    one && region.peek({ ...one.check, limit: one.parts.get(region.name)?.limit ?? 1 })?.remaining;
  /** Returns the journal so far, and empties it. */
  const said = () => asked.splice(0);
  return { us, eu, ap, regions, asked, said, errors, openIsolate, count, knownDenial, settle, leftIn };
}

/** All charges, each with the region's answer. */
export const chargesIn = ({ charges }: Ledger, { results }: Conclusion) =>
  charges.map((charge) => ({
    ...charge,
    outcome: results.find(({ check }) => check === charge.check)?.outcome,
  }));

/** From now on the region does this instead of counting, and the journal notes it. */
export const does = (region: ModelRegion, asked: string[], run: ModelRegion['does']['run']) => {
  region.does.run = (call, signal) => {
    asked.push(`${region.name} ${told(call)}`);
    return run(call, signal);
  };
};

/** The answers of the region to transfer calls are lost. */
export const transfersNothing = (region: ModelRegion) => {
  const { run } = region.does;
  region.does.run = (call, signal) =>
    call.operation === 'transfer' ? Promise.reject(new Error('lost')) : run(call, signal);
};
export const near = () => place({ us: 4, eu: 4, ap: 4 }, { id: 'near' });
export const far = () => place({ eu: 2 }, { id: 'far', at: 'eu' });
export const farther = () => place({ ap: 2 }, { id: 'farther', at: 'ap' });
