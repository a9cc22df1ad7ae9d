// Charges that stores have made, and the calls that change them later. One call changes all charges of a store.
import type { Check } from '../core/counting/check.ts';
import type { CounterStore } from '../core/ports/counter-store.ts';

export interface PastCharge<C extends Check = Check> {
  readonly store: CounterStore;
  readonly check: C;
  /** By the clock of the store. Undefined: the charge is in doubt, because the store did not answer. */
  readonly chargedAtMs?: number | undefined;
  /** For a refund: units of the charge that stay charged. */
  readonly keptUnits?: number;
}

/** Calls each store once, and all stores in parallel. */
export const atEachStore = <C extends Check, T>(
  charges: readonly PastCharge<C>[],
  call: (store: CounterStore, checks: readonly C[]) => Promise<T>,
): Promise<T[]> =>
  Promise.all(
    [...Map.groupBy(charges, ({ store }) => store)].map(([store, ofStore]) =>
      call(store, ofStore.map(asCharged)),
    ),
  );

/** The check, addressed as a past charge. */
const asCharged = <C extends Check>({ check, chargedAtMs, keptUnits = 0 }: PastCharge<C>): C =>
  chargedAtMs === undefined ? check : { ...check, want: keptUnits, chargedAtMs };

/** Brings these charges to the real cost: with units to charge in addition, or with units to give back. */
export const settlementOf = <C extends Check>(charges: readonly PastCharge<C>[], cost: number) => ({
  added: differences(charges, (charged) => cost - charged),
  refunded: differences(charges, (charged) => charged - cost, cost),
});

/** The charges whose difference is above 0, with the difference as their cost. */
const differences = <C extends Check>(
  charges: readonly PastCharge<C>[],
  of: (charged: number) => number,
  keptUnits = 0,
): PastCharge<C>[] =>
  charges
    .map((charge) => ({ ...charge, check: { ...charge.check, cost: of(charge.check.cost) }, keptUnits }))
    .filter(({ check }) => check.cost > 0);
