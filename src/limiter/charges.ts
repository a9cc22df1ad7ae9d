// What becomes of charges after the decision: given back, settled by the real cost, or, for leases, renewed and
// released. Nothing here can fail a request: what does not work out is reported, and heals by expiry.
import type { Check, Operation } from '../core/check.ts';
import type { CounterStore } from '../core/counter-store.ts';
import type { Decision } from '../core/decision.ts';
import type { RuleCheck } from '../core/plan.ts';

export interface Charges {
  /** Gives back what was spent; leases are released. */
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
  readonly decision: Decision;
  readonly onError: (error: unknown) => void;
}

/** Nobody waits for these calls any more. */
const DEADLINE_MS = 5_000;
/** A release that is lost keeps a place taken until it expires. Doing it twice does no harm, unlike a refund. */
const RELEASE_AGAIN_MS = [500, 2_000, 5_000];

export function createCharges({ store, decision, onError }: ChargesOptions): Charges {
  const charged = chargedBy(decision);
  const leases = charged.filter(isLease);
  const spent = charged.filter((check) => !isLease(check));

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
      await run('refund', spent);
    },
    async refundError() {
      const refunded = spent.filter(({ rule }) => rule.refundOnError);
      await run('refund', refunded);
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

const isLease = ({ algorithm }: Check) => algorithm === 'concurrency';

/** Whether anything is to be done about a decision later on: mostly not. */
export function hasSequel(decision: Decision): boolean {
  if (decision.kind === 'degraded') return decision.checks?.some(isLease) ?? false;
  if (decision.kind !== 'counted') return false;
  return decision.results.some(
    ({ check: { rule, algorithm } }) =>
      algorithm === 'concurrency' || rule.action === 'throttle' || rule.costFromOrigin || rule.refundOnError,
  );
}

/** What nobody has answered for may have been charged all the same: leases are given back, by their id. */
function chargedBy(decision: Decision): readonly RuleCheck[] {
  if (decision.kind === 'degraded') return decision.checks?.filter(isLease) ?? [];
  if (decision.kind !== 'counted') return [];
  const { nowMs, results } = decision;
  return (
    results
      .filter(({ outcome }) => outcome.allowed)
      // In a cluster each slot has a clock of its own.
      .map(({ check, outcome }) => ({ ...check, want: 0, chargedAtMs: outcome.nowMs ?? nowMs }))
  );
}

/** The checks with the part of the cost that is to be moved, without those where there is none. */
const differences = (checks: readonly RuleCheck[], of: (check: RuleCheck) => number): Check[] =>
  checks.map((check) => ({ ...check, cost: of(check) })).filter(({ cost }) => cost > 0);
