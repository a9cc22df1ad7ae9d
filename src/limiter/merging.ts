// Some algorithms lose a unit in each part that is in use (the trait `roundsEachPart`). With a small limit that is too
// much, so Weir merges the parts once a caller strains several regions: the owner charges itself with the units that the
// other region has counted, and that region then transfers its part although it is in use. docs/regions.md explains why
// that is exact.

import type { TransferReply } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { centralRegionOf } from '../core/regions/parts.ts';
import type { PlacedCheck } from '../core/regions/placement.ts';
import { isMerged } from '../core/regions/placement.ts';
import type { LimiterRegion, Regions } from './region.ts';
import { type Transfer, type TransferCall, wholeOf } from './transfers.ts';

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

export interface MergingOptions {
  readonly ask: (call: TransferCall, signal: AbortSignal) => Promise<readonly TransferReply[]>;
  readonly transferFrom: (check: RuleCheck, region: string) => Transfer | undefined;
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
