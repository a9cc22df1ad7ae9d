// Some algorithms lose a unit in each part that is in use (the trait `roundsEachPart`). With a small limit that is too
// much, so Weir merges the parts once a caller strains several regions: the home charges itself with the units that the
// other region has counted, and that region then cedes its part although it is in use. docs/regions.md explains why
// that is exact.
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { centralRegionOf } from '../core/regions/parts.ts';
import { isMerged } from '../core/regions/terms.ts';
import type { Cessions } from './cessions.ts';
import { wholeOf } from './known-cessions.ts';
import type { PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region.ts';

/** No request waits for these calls, so they may take long. */
const MERGE_MS = 5_000;
const MAX_TRIES = 3;

export interface Merge {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  /** The answer of `from` when it was asked for its part. */
  readonly outcome: Outcome;
  /** The nearest one is the home. */
  readonly regions: Regions;
}

export interface MergingOptions extends Pick<Cessions, 'ask' | 'cessionFrom'> {
  /** Whether that region has refused its part of the counter lately. */
  readonly isRefused: (from: string, check: RuleCheck) => boolean;
}

export function createMerging({ ask, cessionFrom, isRefused }: MergingOptions) {
  /**
   * Only one region at a time may merge a counter. Otherwise two regions could cede to each other, and neither would
   * count. The turn itself is a cession, of a counter that no rule uses.
   */
  const hasTurn = async ({ placed, regions }: Merge): Promise<boolean> => {
    const turn = { ...placed, check: { ...placed.check, id: `${placed.check.id}-home` } };
    const weighted = [...placed.parts].map(([name, { limit }]) => ({ name, share: limit }));
    const keeper = regions.find(({ name }) => name === centralRegionOf(placed.check.key, weighted));
    if (!keeper) return false;
    const [home] = regions;
    const known = cessionFrom(turn.check, keeper.name);
    if (known || isRefused(keeper.name, turn.check)) return known?.home === home.name;
    const signal = AbortSignal.timeout(MERGE_MS);
    const [outcome] = await ask({ from: keeper, home: home.name, placed: [turn] }, signal);
    return outcome?.allowed === true;
  };

  /** Undefined if that region may have ceded its part, or if the home has no room for its units. */
  const tryOnce = async ({ placed, from, regions }: Merge, units: number): Promise<Outcome | undefined> => {
    const [home] = regions;
    const signal = AbortSignal.timeout(MERGE_MS);
    const charge = { ...wholeOf(placed.check), cost: units };
    const { nowMs, outcomes } = await home.store.run({ operation: 'take', checks: [charge] }, signal);
    if (!outcomes[0]?.allowed) return undefined;
    const charged = { units, atMs: nowMs };
    // If the region does not answer, the charge stays.
    const [answer] = await ask({ from, home: home.name, placed: [placed], charged }, signal);
    if (answer?.allowed !== false) return undefined;
    await home.store.run({ operation: 'refund', checks: [{ ...charge, chargedAtMs: nowMs }] }, signal);
    return answer;
  };

  return {
    async merge(merge: Merge): Promise<void> {
      const { check, parts } = merge.placed;
      if (merge.outcome.allowed || !isMerged(check, parts)) return;
      let units = merge.outcome.remaining;
      // The region may have counted more meanwhile, or a window may have ended.
      for (let tries = 0; tries < MAX_TRIES && units > 0 && (await hasTurn(merge)); tries += 1)
        units = (await tryOnce(merge, units))?.remaining ?? 0;
    },
  };
}
