// A request that needs a decision, and the steps to that decision.
import type { Decision, DegradedReason } from '../core/decision.ts';
import type { Plan, RefusedCredential } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { AfterResponse } from '../core/ports/after-response.ts';
import type { Probe } from '../core/ports/snapshot-source.ts';
import type { Deadline } from './deadline.ts';
import type { Ledger } from './ledger.ts';
import type { Regions } from './region.ts';

export interface DecisionRequest {
  readonly regions: Regions;
  /** `peek` charges nothing. If no region answers, the isolate does not decide a `peek` in memory. */
  readonly operation: 'take' | 'peek';
  /** Gets all charges, certain or in doubt. The limiter gives the charges of a denied request back. */
  readonly ledger: Ledger;
  readonly afterResponse: AfterResponse;
}

/** The checks of the request, or the reason for a decision without checks. */
export type RequestPlan = Plan | RefusedCredential;

/** One pass over a request, with one set of rules. */
export interface Round {
  readonly kind: 'round';
  readonly request: DecisionRequest;
  readonly snapshot: Snapshot;
  readonly deadline: Deadline;
  readonly startedAtMs: number;
  /** If there is one, the round reads the announcement in the call to Redis that it makes anyway. */
  readonly probe?: Probe | undefined;
  /** Why the request has waited longer for regions than it should. Set as soon as it is known. */
  delayedBy?: DegradedReason | undefined;
}

export interface Decided {
  readonly kind: 'decided';
  readonly decision: Decision;
}

export type Step = Round | Decided;
