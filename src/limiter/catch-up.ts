// A bucket under load never empties, so it never forgets what it held when its rule was moved to another region. The counter
// there starts empty. While both count, the new one is brought up to the level of the old one after a response: then the
// new one is right when it is alone. Windows need none of this: they end.
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { capacityOf, hasBurst } from '../core/regions/shares.ts';
import type { Pending } from './pending-check.ts';
import type { LimiterRegion } from './region-ladder.ts';

/** Nobody waits for it. What is lost is tried again after the next request. */
const CATCH_UP_MS = 5_000;

/** Charges the newer region with what only the older one has counted. */
export function catchUp(pending: readonly Pending[], afterResponse: AfterResponse, nowMs: number): void {
  for (let i = 1; i < pending.length; i += 1) {
    if (pending[i - 1]?.placed.check !== pending[i]?.placed.check) continue;
    const [older, newer] = [usedOf(pending[i - 1]), usedOf(pending[i])];
    if (!older || !newer || older.units <= newer.units) continue;
    const { check, region } = newer;
    const lacking = { ...check, cost: older.units - newer.units, want: older.units, chargedAtMs: nowMs };
    afterResponse(settle(region, lacking));
  }
}

const settle = (region: LimiterRegion, check: RuleCheck): Promise<unknown> =>
  region.store
    .run({ operation: 'settle', checks: [check] }, AbortSignal.timeout(CATCH_UP_MS))
    .catch(region.watch.note);

/** Of a bucket that one region counts alone. A check that is counted in two ways stands in the list twice, the older first. */
function usedOf(one: Pending | undefined) {
  if (!one?.admitted || one.placed.at === undefined || !hasBurst(one.placed.check)) return undefined;
  const { region, outcome, result } = one.admitted;
  return {
    region,
    check: result.check,
    units: capacityOf(result.check) - outcome.remaining,
  };
}
