// Carries the level of a bucket over to another region when its rule moves. The counter there starts empty, and a
// bucket under load never empties, so the old level would be forgotten. While both regions count, Weir raises the new
// bucket to the level of the old one after responses. Windows need none of this: they end.

import { capacityOf, hasBurst } from '../core/counting/capacity.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import type { Pending } from './pending-check.ts';
import type { LimiterRegion } from './region.ts';

/** No request waits for this call. If it fails, Weir tries again after the next request. */
const CATCH_UP_MS = 5_000;

/** Charges the new region with the units that only the old one has counted. */
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

/**
 * Units used in a bucket that one region counts alone. A check that is counted twice is in the list twice, older first.
 */
function usedOf(one: Pending | undefined) {
  if (!one?.admitted || one.placed.at === undefined || !hasBurst(one.placed.check)) return undefined;
  const { region, outcome, result } = one.admitted;
  if (isStandIn(result.check)) return undefined;
  return {
    region,
    check: result.check,
    units: capacityOf(result.check) - outcome.remaining,
  };
}
