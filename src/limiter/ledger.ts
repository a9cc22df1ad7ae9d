// All charges of one request, and where they were made. Every call that charges notes it here, and only the ledger
// changes a charge later: it gives back, settles, renews and releases. None of that can fail a request: the ledger
// reports an error, and the charge expires by itself.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Check } from '../core/counting/check.ts';
import { hash } from '../core/counting/keys.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { type CounterStore, OutOfCalls } from '../core/ports/region.ts';

// Charges that stores have made, and the calls that change them later. One call changes all charges of a store.

export interface PastCharge<C extends Check = Check> {
  readonly store: CounterStore;
  readonly check: C;
  /** By the clock of the store. Undefined: the charge is in doubt, because the store did not answer. */
  readonly chargedAtMs?: number | undefined;
  /** For a refund: units of the charge that stay charged. */
  readonly keptUnits?: number | undefined;
}

/** Calls each store once, and all stores in parallel. */
export const atEachStore = <C extends PastCharge, T>(
  charges: readonly C[],
  call: (store: CounterStore, charges: readonly C[]) => Promise<T>,
): Promise<T[]> =>
  Promise.all([...Map.groupBy(charges, ({ store }) => store)].map(([store, some]) => call(store, some)));

/** The calls that change charges of one store. */
export const AMENDMENTS = {
  refund(store: CounterStore, charges: readonly PastCharge[], signal: AbortSignal) {
    const checks = charges.map(({ check, chargedAtMs, keptUnits }) => ({ ...check, chargedAtMs, keptUnits }));
    return store.refund({ checks }, signal);
  },
  settle(store: CounterStore, charges: readonly PastCharge[], signal: AbortSignal) {
    const checks = charges.flatMap(({ check, chargedAtMs }) =>
      chargedAtMs === undefined ? [] : [{ ...check, chargedAtMs }],
    );
    return store.settle({ checks }, signal);
  },
};

/** Brings these charges to the real cost: with units to charge in addition, or with units to give back. */
export const settlementOf = <C extends Check>(charges: readonly PastCharge<C>[], cost: number) => ({
  added: differences(charges, (charged) => cost - charged),
  refunded: differences(charges, (charged) => charged - cost, cost),
});

/** The charges whose difference is above 0, with the difference as their cost. */
const differences = <C extends Check>(
  charges: readonly PastCharge<C>[],
  of: (charged: number) => number,
  keptUnits?: number,
): PastCharge<C>[] =>
  charges
    .map((charge) => ({ ...charge, check: { ...charge.check, cost: of(charge.check.cost) }, keptUnits }))
    .filter(({ check }) => check.cost > 0);

/** No request waits for these calls, so they may take long. */
const DEADLINE_MS = 5_000;
/** A lost release keeps a seat taken until it expires. Releasing twice does no harm, unlike refunding twice. */
const RELEASE_AGAIN_MS = [500, 2_000, 5_000];

export interface Charge extends PastCharge<RuleCheck> {
  /** For leased units: when they were used, by the clock of this isolate. */
  readonly usedAtMs?: number;
}

export const createLedger = (onError: (error: unknown) => void): Ledger => new Ledger(onError);

/** Shared by all ledgers: most have one charge and nothing else. */
const NOTHING: never[] = [];

/** The first entry makes a list of its own, because an empty list is shared. */
function added<T>(list: T[], entry: T): T[] {
  if (list.length === 0) return [entry];
  list.push(entry);
  return list;
}

/** A class, because every request has a ledger, and the methods of a class are made once. */
export class Ledger {
  /** See `Deadline` in deadline.ts. */
  static readonly kept: Ledger = new Ledger(() => {});

  #spent: Charge[] = NOTHING;
  #seats: Charge[] = NOTHING;
  /** Charges paid from leases of this isolate. The units are put back if the request is not admitted. */
  #leased: { readonly charge: Charge; readonly putBack: () => void }[] = NOTHING;
  /** Seats that a store without an answer may hold. */
  #doubts: Charge[] = NOTHING;
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void) {
    this.#onError = onError;
  }

  /** A store has charged this check, at that moment by its own clock. */
  noteCharge(store: CounterStore, check: RuleCheck, chargedAtMs: number): void {
    const charge = { store, check, chargedAtMs };
    if (holdsSeat(check)) this.#seats = added(this.#seats, charge);
    else this.#spent = added(this.#spent, charge);
  }

  /** A leased unit pays for the check: see leases.ts. */
  noteLeased(charge: Charge, putBack: () => void): void {
    this.#leased = added(this.#leased, { charge, putBack });
  }

  /** A store has not answered a call that charges these checks, so it may have charged them. */
  noteDoubt(store: CounterStore, checks: readonly RuleCheck[]): void {
    for (const check of checks) if (holdsSeat(check)) this.#doubts = added(this.#doubts, { store, check });
  }

  /** All charges that are certain. */
  get charges(): readonly Charge[] {
    return [...this.#spent, ...this.#seats, ...this.#leased.map(({ charge }) => charge)];
  }

  /** Nothing was charged, and no seat is in doubt. */
  get isEmpty(): boolean {
    const { length } = this.#leased;
    return length + this.#spent.length + this.#seats.length + this.#doubts.length === 0;
  }

  /** Whether the ledger has work to do after the request. Mostly it has none. */
  get needsFollowUp(): boolean {
    const hasSeats = this.#seats.length > 0 || this.#doubts.length > 0;
    return hasSeats || this.#spent.some(({ check }) => needsFollowUp(check));
  }

  /** Whether a rule takes its cost from the origin. */
  get awaitsCost(): boolean {
    return this.#spent.some(({ check }) => check.rule.costFromOrigin);
  }

  /** How long the seats last without a renewal; undefined if there are none. */
  get seatMs(): number | undefined {
    if (this.#seats.length === 0) return undefined;
    return Math.min(...this.#seats.map(({ check }) => check.windowMs));
  }

  /** The request is not admitted after all: gives back all charges and forgets them. */
  async undo(): Promise<void> {
    const refunded = this.#spent;
    this.#spent = NOTHING;
    for (const { putBack } of this.#leased) putBack();
    this.#leased = NOTHING;
    await Promise.all([this.#amend('refund', refunded), this.release()]);
  }

  /** The client left before its turn: gives back its place in the queue, and what `refundError` gives back. */
  refund(): Promise<void> {
    return this.#refundWhere(({ rule }) => rule.refundOnError || rule.action === 'throttle');
  }

  /** The request did not reach the origin: gives back the charges of rules with `refundOnError`. */
  refundError(): Promise<void> {
    return this.#refundWhere(({ rule }) => rule.refundOnError);
  }

  /** Brings rules that take their cost from the origin to the real cost. */
  async settle(cost: number): Promise<void> {
    const settled = this.#spent.filter(({ check }) => check.rule.costFromOrigin);
    const { added, refunded } = settlementOf(settled, cost);
    await this.#amend('settle', added);
    await this.#amend('refund', refunded);
  }

  /** False if a seat is lost: somebody else has it, or this request can never renew it again. */
  async renew(): Promise<boolean> {
    const renewed = await atEachStore(this.#seats, (store, held) => this.#renewAt(store, held));
    return renewed.every(Boolean);
  }

  /** Gives seats back, also to stores that did not answer. */
  async release(): Promise<void> {
    const held = [...this.#seats, ...this.#doubts];
    this.#seats = NOTHING;
    this.#doubts = NOTHING;
    await atEachStore(held, (store, some) => this.#releaseAt(store, some));
  }

  async #refundWhere(isRefunded: (check: RuleCheck) => boolean): Promise<void> {
    await this.#amend(
      'refund',
      this.#spent.filter(({ check }) => isRefunded(check)),
    );
  }

  #amend(operation: 'refund' | 'settle', charges: readonly PastCharge[]): Promise<boolean[]> {
    return atEachStore(charges, (store, some) => this.#amendAt(store, operation, some));
  }

  /** False if the store may not have done it. */
  async #amendAt(
    store: CounterStore,
    operation: 'refund' | 'settle',
    charges: readonly PastCharge[],
  ): Promise<boolean> {
    try {
      await AMENDMENTS[operation](store, charges, AbortSignal.timeout(DEADLINE_MS));
      return true;
    } catch (error) {
      this.#onError(error);
      return false;
    }
  }

  /** Takes seats again that Redis has forgotten (after a restart, a reset or a long outage), if they are still free. */
  async #renewAt(store: CounterStore, charges: readonly Charge[]): Promise<boolean> {
    const signal = () => AbortSignal.timeout(DEADLINE_MS);
    const held = charges.map(({ check }) => check);
    try {
      const { outcomes } = await store.renew({ checks: held }, signal());
      const lost = held.filter((_, i) => outcomes[i] === 'lost');
      if (lost.length === 0) return true;
      const retaken = await store.take({ checks: lost }, signal());
      return retaken.outcomes.every(({ allowed }) => allowed);
    } catch (error) {
      this.#onError(error);
      return !(error instanceof OutOfCalls);
    }
  }

  async #releaseAt(store: CounterStore, held: readonly Charge[]): Promise<void> {
    for (const pauseMs of RELEASE_AGAIN_MS) {
      if (await this.#amendAt(store, 'refund', held)) return;
      await new Promise((resolve) => setTimeout(resolve, spread(pauseMs, held)));
    }
    await this.#amendAt(store, 'refund', held);
  }
}

/** Up to twice as long. Seats have random ids, so requests that fail together do not try again together. */
export const spread = (pauseMs: number, [first]: readonly Pick<Charge, 'check'>[]): number =>
  pauseMs * (1 + hash(first?.check.seatId ?? '', pauseMs) / 2 ** 32);

const holdsSeat = ({ algorithm }: RuleCheck): boolean => traitsOf(algorithm).holdsSeats === true;

/** Whether the charge of such a check may change after the request. */
export const needsFollowUp = (check: RuleCheck): boolean => {
  const { action, costFromOrigin, refundOnError } = check.rule;
  return holdsSeat(check) || action === 'throttle' || costFromOrigin || refundOnError;
};

/** Renews the seats of an admitted request until it ends, then gives them back. If the Worker dies, they expire. */
export interface SeatHold {
  /** Aborts when a seat is lost: the connection must then close. */
  readonly lost: AbortSignal;
  /** Resolves when all seats have been given back. Further calls do nothing. */
  end(): Promise<void>;
}

/** Timers count in 32 bits. A longer one would fire at once, again and again. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Undefined if there is no seat. Renews three times within a lifetime, so that one failure does no harm. */
export function holdSeats(ledger: Pick<Ledger, 'seatMs' | 'renew' | 'release'>): SeatHold | undefined {
  const { seatMs } = ledger;
  if (seatMs === undefined) return undefined;
  const losing = new AbortController();
  let isOver = false;
  const renew = async () => {
    const isSeatHold = await ledger.renew();
    if (isSeatHold || isOver) return;
    clearInterval(timer);
    losing.abort();
  };
  let renewing = Promise.resolve();
  const timer = setInterval(
    () => {
      renewing = renew();
    },
    Math.min(Math.ceil(seatMs / 3), LONGEST_TIMER_MS),
  );
  return {
    lost: losing.signal,
    async end() {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      // Waits for a renewal in flight: it could take the seat again after the release.
      await renewing;
      await ledger.release();
    },
  };
}
