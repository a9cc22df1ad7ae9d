// What becomes of charges after the decision: given back, settled by the real cost, or, for leases, renewed and
// released. Nothing here can fail a request: what does not work out is reported, and heals by expiry.
import type { Check, Operation } from '../core/check.ts';
import type { CounterStore } from '../core/counter-store.ts';
import type { CountedDecision } from '../core/decision.ts';
import type { RuleCheck } from '../core/plan.ts';

export interface Charges {
  /** Gives everything back. */
  refund(): Promise<void>;
  /** Gives back what rules say should not be paid for an answer that never came. */
  refundError(): Promise<void>;
  /** Brings rules that take their cost from the origin to the real one. */
  settle(cost: number): Promise<void>;
  /** How long leases are good without being renewed; undefined if there are none. */
  readonly leaseMs: number | undefined;
  renew(): Promise<void>;
  release(): Promise<void>;
}

export interface ChargesOptions {
  readonly store: CounterStore;
  readonly decision: CountedDecision;
  readonly onError: (error: unknown) => void;
}

/** Nobody waits for these calls any more. */
const DEADLINE_MS = 5_000;
/** A release that is lost keeps a place taken until it expires. Doing it twice does no harm, unlike a refund. */
const RELEASE_AGAIN_MS = [500, 2_000, 5_000];

export function createCharges({ store, decision, onError }: ChargesOptions): Charges {
  const charged = decision.results
    .filter(({ outcome }) => outcome.allowed)
    // In a cluster each slot has a clock of its own.
    .map(({ check, outcome }) => ({ ...check, want: 0, chargedAtMs: outcome.nowMs ?? decision.nowMs }));
  const leases = charged.filter(({ algorithm }) => algorithm === 'concurrency');
  const spent = charged.filter(({ algorithm }) => algorithm !== 'concurrency');

  /** False if it is not known to be done. */
  const run = async (operation: Operation, checks: readonly Check[]): Promise<boolean> => {
    if (checks.length === 0) return true;
    try {
      await store.run({ operation, checks }, AbortSignal.timeout(DEADLINE_MS));
      return true;
    } catch (error) {
      onError(error);
      return false;
    }
  };

  const release = async () => {
    for (const pauseMs of RELEASE_AGAIN_MS) {
      if (await run('refund', leases)) return;
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (1 + Math.random())));
    }
    await run('refund', leases);
  };

  return {
    async refund() {
      await Promise.all([run('refund', spent), release()]);
    },
    async refundError() {
      const refunded = spent.filter(({ rule }) => rule.refundOnError);
      await Promise.all([run('refund', refunded), release()]);
    },
    async settle(cost) {
      const settled = spent.filter(({ rule }) => rule.costFromOrigin);
      await run(
        'settle',
        differences(settled, (check) => cost - check.cost),
      );
      await run(
        'refund',
        differences(settled, (check) => check.cost - cost),
      );
    },
    leaseMs: leases.length === 0 ? undefined : Math.min(...leases.map(({ windowMs }) => windowMs)),
    async renew() {
      await run('renew', leases);
    },
    release,
  };
}

/** The checks with the part of the cost that is to be moved, without those where there is none. */
const differences = (checks: readonly RuleCheck[], of: (check: RuleCheck) => number): Check[] =>
  checks.map((check) => ({ ...check, cost: of(check) })).filter(({ cost }) => cost > 0);
