// Some algorithms lose a unit in each part that is in use (the trait `roundsEachPart`). With a small limit that is too
// much, so Weir merges the parts once a caller strains several regions: the owner charges itself with the units that the
// other region has counted, and that region then transfers its part although it is in use. docs/regions.md explains why
// that is exact.

import { capacityOf, hasBurst } from '../core/counting/capacity.ts';
import type { SettleCheck, TransferReply } from '../core/counting/check.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import type { AfterResponse } from '../core/ports/telemetry.ts';
import { centralRegionOf } from '../core/regions/parts.ts';
import { isMerged } from '../core/regions/placement.ts';
import type { Pending } from './count.ts';
import type { PlacedCheck } from './next-region.ts';
import type { LimiterRegion, Regions } from './region-calls.ts';
import { type Transfers, wholeOf } from './transfers.ts';

/** No request waits for these calls, so they may take long. */
const MERGE_MS = 5_000;
const MAX_TRIES = 3;

export interface Merge {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  /** The answer of `from` when it was asked for its part. */
  readonly reply: TransferReply;
  /** The nearest one is the owner. */
  readonly regions: Regions;
}

export interface MergingOptions extends Pick<Transfers, 'ask' | 'transferFrom'> {
  /** Whether that region has refused its part of the counter lately. */
  readonly isRefused: (from: string, check: RuleCheck) => boolean;
}

export function createMerging({ ask, transferFrom, isRefused }: MergingOptions) {
  /**
   * Only one region at a time may merge a counter. Otherwise two regions could transfer to each other, and neither would
   * count. The turn itself is a transfer, of a counter that no rule uses.
   */
  const hasTurn = async ({ placed, regions }: Merge): Promise<boolean> => {
    const turn = { ...placed, check: { ...placed.check, id: `${placed.check.id}-owner` } };
    const weighted = [...placed.parts].map(([name, { limit }]) => ({ name, share: limit }));
    const keeper = regions.find(({ name }) => name === centralRegionOf(placed.check.key, weighted));
    if (!keeper) return false;
    const [owner] = regions;
    const known = transferFrom(turn.check, keeper.name);
    if (known || isRefused(keeper.name, turn.check)) return known?.owner === owner.name;
    const signal = AbortSignal.timeout(MERGE_MS);
    const [reply] = await ask({ from: keeper, owner: owner.name, placed: [turn] }, signal);
    return reply?.kind === 'transferred';
  };

  /** Undefined if that region may have transferred its part, or if the owner has no room for its units. */
  const tryOnce = async (
    { placed, from, regions }: Merge,
    units: number,
  ): Promise<TransferReply | undefined> => {
    const [owner] = regions;
    const signal = AbortSignal.timeout(MERGE_MS);
    const charge = { ...wholeOf(placed.check), cost: units };
    const { nowMs, outcomes } = await owner.store.take({ checks: [charge] }, signal);
    if (!outcomes[0]?.allowed) return undefined;
    const charged = { units, atMs: nowMs };
    // If the region does not answer, the charge stays.
    const [reply] = await ask({ from, owner: owner.name, placed: [placed], charged }, signal);
    if (!reply || reply.kind === 'transferred') return undefined;
    await owner.store.refund({ checks: [{ ...charge, chargedAtMs: nowMs }] }, signal);
    return reply;
  };

  return {
    async merge(merge: Merge): Promise<void> {
      const { check, parts } = merge.placed;
      if (!isMerged(check, parts)) return;
      let units = unitsInUse(merge.reply);
      // The region may have counted more meanwhile, or a window may have ended.
      for (let tries = 0; tries < MAX_TRIES && units > 0 && (await hasTurn(merge)); tries += 1)
        units = unitsInUse(await tryOnce(merge, units));
    },
  };
}

const unitsInUse = (reply: TransferReply | undefined): number =>
  reply?.kind === 'in-use' ? reply.usedUnits : 0;

// Carries the level of a bucket over to another region when its rule moves. The counter there starts empty, and a
// bucket under load never empties, so the old level would be forgotten. While both regions count, Weir raises the new
// bucket to the level of the old one after responses. Windows need none of this: they end.

/** No request waits for this call. If it fails, Weir tries again after the next request. */
const CATCH_UP_MS = 5_000;

/** Charges the new region with the units that only the old one has counted. */
export function catchUp(pending: readonly Pending[], afterResponse: AfterResponse, nowMs: number): void {
  for (let i = 1; i < pending.length; i += 1) {
    if (pending[i - 1]?.placed.check !== pending[i]?.placed.check) continue;
    const [older, newer] = [usedOf(pending[i - 1]), usedOf(pending[i])];
    if (!older || !newer || older.units <= newer.units) continue;
    const { check, region } = newer;
    const lacking = { ...check, cost: older.units - newer.units, mostUnits: older.units, chargedAtMs: nowMs };
    afterResponse(settle(region, lacking));
  }
}

const settle = (region: LimiterRegion, check: SettleCheck): Promise<unknown> =>
  region.store.settle({ checks: [check] }, AbortSignal.timeout(CATCH_UP_MS)).catch(region.watch.note);

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
