// What becomes of charges after the decision: given back, settled by the real cost, or, for leases, renewed and
// released. Nothing here can fail a request: what does not work out is reported, and heals by expiry.
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Check, Operation } from '../core/counting/check.ts';
import {
  type CountedDecision,
  type Decision,
  type DegradedDecision,
  resultsOf,
} from '../core/counting/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { isCentral } from '../core/matching/rule.ts';
import { type CounterStore, OutOfCalls } from '../core/ports/counter-store.ts';

export interface Charges {
  /** Of a decision that does not count after all: gives back everything. */
  undo(): Promise<void>;
  /** Of a client that left before it was its turn: gives back its place in a queue, and what `refundError` does. */
  refund(): Promise<void>;
  /** Of a request that did not reach the origin: gives back what rules say should not be paid for it. */
  refundError(): Promise<void>;
  /** Whether a rule takes its cost from the origin. */
  readonly awaitsCost: boolean;
  /** Brings rules that take their cost from the origin to the real one. */
  settle(cost: number): Promise<void>;
  /** How long leases are good without being renewed; undefined if there are none. */
  readonly leaseMs: number | undefined;
  /** False if a lease is lost: somebody else has its place, or this request can never renew it again. */
  renew(): Promise<boolean>;
  release(): Promise<void>;
}

export interface ChargesOptions {
  readonly decision: Decision;
  readonly onError: (error: unknown) => void;
}

/** Nobody waits for these calls any more. */
const DEADLINE_MS = 5_000;
/** A release that is lost keeps a place taken until it expires. Doing it twice does no harm, unlike a refund. */
const RELEASE_AGAIN_MS = [500, 2_000, 5_000];

export function createCharges({ decision, onError }: ChargesOptions): Charges {
  const charged = chargedBy(decision);
  const leases = charged.filter(isLease);
  const spent = charged.filter((charge) => !isLease(charge));

  /** False if it is not known to be done. */
  const runAt = async (
    store: CounterStore,
    operation: Operation,
    checks: readonly Check[],
  ): Promise<boolean> => {
    try {
      await store.run({ operation, checks }, AbortSignal.timeout(DEADLINE_MS));
      return true;
    } catch (error) {
      onError(error);
      return false;
    }
  };

  /** Where they were charged. */
  const run = (operation: Operation, charges: readonly Charge[]) =>
    Promise.all(
      [...Map.groupBy(charges, ({ store }) => store)].map(([store, ofStore]) =>
        runAt(
          store,
          operation,
          ofStore.map(({ check }) => check),
        ),
      ),
    );

  /** What Redis has forgotten (a restart, a reset, an outage that outlasted the lease) is taken again, if it is free. */
  const renewAt = async (store: CounterStore, held: readonly RuleCheck[]): Promise<boolean> => {
    const signal = () => AbortSignal.timeout(DEADLINE_MS);
    try {
      const { outcomes } = await store.run({ operation: 'renew', checks: held }, signal());
      const forgotten = held.filter((_, i) => outcomes[i]?.allowed === false);
      if (forgotten.length === 0) return true;
      const checks = forgotten.map((check) => ({ ...check, chargedAtMs: undefined }));
      const retaken = await store.run({ operation: 'take', checks }, signal());
      return retaken.outcomes.every(({ allowed }) => allowed);
    } catch (error) {
      onError(error);
      return !(error instanceof OutOfCalls);
    }
  };

  const releaseAt = async (store: CounterStore, held: readonly Check[]) => {
    for (const pauseMs of RELEASE_AGAIN_MS) {
      if (await runAt(store, 'refund', held)) return;
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (1 + Math.random())));
    }
    await runAt(store, 'refund', held);
  };

  const release = async () => {
    const held = [...Map.groupBy(leases, ({ store }) => store)].map(([store, ofStore]) =>
      releaseAt(
        store,
        ofStore.map(({ check }) => check),
      ),
    );
    const unanswered = unansweredBy(decision).map((store) => releaseAt(store, askedLeases(decision)));
    await Promise.all([...held, ...unanswered]);
  };

  return {
    async undo() {
      await Promise.all([run('refund', spent), release()]);
    },
    async refund() {
      const refunded = spent.filter(
        ({ check: { rule } }) => rule.refundOnError || rule.action === 'throttle',
      );
      await run('refund', refunded);
    },
    async refundError() {
      await run(
        'refund',
        spent.filter(({ check }) => check.rule.refundOnError),
      );
    },
    awaitsCost: spent.some(({ check }) => check.rule.costFromOrigin),
    async settle(cost) {
      const settled = spent.filter(({ check }) => check.rule.costFromOrigin);
      await run(
        'settle',
        differences(settled, (check) => cost - check.cost),
      );
      await run(
        'refund',
        differences(settled, (check) => check.cost - cost, cost),
      );
    },
    leaseMs: leases.length === 0 ? undefined : Math.min(...leases.map(({ check }) => check.windowMs)),
    async renew() {
      const renewed = await Promise.all(
        [...Map.groupBy(leases, ({ store }) => store)].map(([store, ofStore]) =>
          renewAt(
            store,
            ofStore.map(({ check }) => check),
          ),
        ),
      );
      return renewed.every(Boolean);
    },
    release,
  };
}

/** A check that was charged, and where. */
interface Charge {
  readonly store: CounterStore;
  readonly check: RuleCheck;
}

const isLease = ({ check }: Pick<Charge, 'check'>) => traitsOf(check.algorithm).holdsLeases === true;

/** Whether anything is to be done about a decision later on: mostly not. */
export function hasSequel(decision: Decision): boolean {
  if (decision.kind !== 'counted' && decision.kind !== 'degraded') return false;
  return checksOf(decision).some(hasSequelOf);
}

export const hasSequelOf = ({ rule, algorithm }: RuleCheck): boolean =>
  traitsOf(algorithm).holdsLeases || rule.action === 'throttle' || rule.costFromOrigin || rule.refundOnError;

/** In regions, or in this isolate's own counters. */
function chargedBy(decision: Decision): Charge[] {
  if (!decision.allowed) return [];
  const counted = decision.kind === 'degraded' ? (decision.counted ?? []) : [];
  return [...resultsOf(decision), ...counted].flatMap(({ check, outcome, store }) =>
    store && outcome.allowed ? [{ store, check: asCharged(check, outcome.nowMs ?? nowOf(decision)) }] : [],
  );
}

/** As it is named when it is changed afterwards. */
export const asCharged = (check: RuleCheck, chargedAtMs: number | undefined): RuleCheck => ({
  ...check,
  want: 0,
  chargedAtMs,
});

const nowOf = (decision: Decision) =>
  decision.kind === 'counted'
    ? decision.nowMs
    : decision.kind === 'degraded'
      ? decision.local?.nowMs
      : undefined;

const checksOf = (decision: CountedDecision | DegradedDecision): readonly RuleCheck[] =>
  decision.kind === 'counted'
    ? decision.results.map(({ check }) => check)
    : [...(decision.checks ?? []), ...(decision.counted ?? []).map(({ check }) => check)];

/** What nobody has answered for may have been charged all the same: leases are given back, by their id. */
const unansweredBy = (decision: Decision): readonly CounterStore[] =>
  'unanswered' in decision && askedLeases(decision).length > 0 ? decision.unanswered : [];

const askedLeases = (decision: Decision): readonly RuleCheck[] =>
  decision.kind === 'counted' || decision.kind === 'degraded'
    ? checksOf(decision).filter((check) => isLease({ check }) && !isCountedAlone(decision, check))
    : [];

/** The part of the cost that is to be moved, without those where there is none. */
const differences = (charges: readonly Charge[], of: (check: RuleCheck) => number, kept = 0): Charge[] =>
  charges
    .map(({ store, check }) => ({ store, check: { ...check, cost: of(check), want: kept } }))
    .filter(({ check }) => check.cost > 0);

/** Counted by the only region that was asked for it. */
const isCountedAlone = (decision: Decision, check: RuleCheck) =>
  decision.kind === 'degraded' && !decision.checks?.includes(check) && isCentral(check.rule);
