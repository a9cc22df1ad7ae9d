// Some algorithms lose a unit in each part that is in use (the trait `roundsEachPart`). A small limit of theirs is therefore
// counted in one region as soon as a caller strains several: the home charges itself with what the other region has
// counted, and that region then cedes its part although it is in use. docs/regions.md tells why that is exact.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Outcome } from '../core/counting/check.ts';
import { homeOf } from '../core/regions/shares.ts';
import { holdMs, isMerged, termMs } from '../core/regions/terms.ts';
import type { Cessions } from './cessions.ts';
import { MAX_COUNTERS, nameOf, wholeOf } from './known-cessions.ts';
import type { PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

/** Nobody waits for it. */
const MERGE_MS = 5_000;
const MAX_TRIES = 3;

export interface Merge {
  readonly placed: PlacedCheck;
  readonly from: LimiterRegion;
  /** How `from` has answered when it was asked for its part. */
  readonly outcome: Outcome;
  /** The nearest one is the home. */
  readonly regions: Regions;
}

export interface Merging {
  merge(merge: Merge): Promise<void>;
}

export function createMerging({ now, ask }: { readonly now: () => number } & Pick<Cessions, 'ask'>): Merging {
  /** Whether it is this region's turn to merge a counter; asked for again when that ends. */
  const turns = createBoundedCache<boolean>(MAX_COUNTERS);

  /**
   * One region at a time may merge a counter: or two could cede to each other, and nobody would count. Whose turn it is is
   * a cession like any other, of a counter that nobody counts with.
   */
  const hasTurn = async ({ placed, regions }: Merge): Promise<boolean> => {
    const { check, parts } = placed;
    const [home] = regions;
    const name = `${home.name} ${nameOf(check)}`;
    const known = turns.get(name, now());
    if (known !== undefined) return known;
    const weighted = [...parts].map(([region, { limit }]) => ({ name: region, share: limit }));
    const keeper = regions.find((region) => region.name === homeOf(check.key, weighted));
    if (!keeper) return false;
    const askedAtMs = now();
    const cession = { home: home.name, termMs: termMs(check), holdMs: holdMs(check, parts) };
    const turn = { ...wholeOf(check), id: `${check.id}-home`, cession };
    const { outcomes } = await keeper.store.run(
      { operation: 'cede', checks: [turn] },
      AbortSignal.timeout(MERGE_MS),
    );
    const { allowed = false, retryAfterMs = 0 } = outcomes[0] ?? {};
    turns.set(name, allowed, askedAtMs + (allowed ? cession.termMs : retryAfterMs));
    return allowed;
  };

  /** Undefined if that region may have ceded its part, or if there is no room for what it holds. */
  const tryOnce = async ({ placed, from, regions }: Merge, units: number): Promise<Outcome | undefined> => {
    const [home] = regions;
    const signal = AbortSignal.timeout(MERGE_MS);
    const charge = { ...wholeOf(placed.check), cost: units };
    const { nowMs, outcomes } = await home.store.run({ operation: 'take', checks: [charge] }, signal);
    if (!outcomes[0]?.allowed) return undefined;
    const charged = { units, atMs: nowMs };
    // Without an answer the charge stays.
    const [answer] = await ask({ from, home: home.name, placed: [placed], charged }, signal);
    if (answer?.allowed !== false) return undefined;
    await home.store.run({ operation: 'refund', checks: [{ ...charge, chargedAtMs: nowMs }] }, signal);
    return answer;
  };

  return {
    async merge(merge) {
      const { check, parts } = merge.placed;
      if (merge.outcome.allowed || !isMerged(check, parts)) return;
      let units = merge.outcome.remaining;
      // It may have counted more meanwhile, or a window may have ended.
      for (let tries = 0; tries < MAX_TRIES && units > 0 && (await hasTurn(merge)); tries += 1)
        units = (await tryOnce(merge, units))?.remaining ?? 0;
    },
  };
}
