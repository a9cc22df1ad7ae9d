// Decides a request as the gateway does, round by round, with a plan that a test, a bench or the simulator makes.
import type { Decision } from '../src/core/decision.ts';
import type { Snapshot } from '../src/core/matching/snapshot.ts';
import type { Deadline } from '../src/limiter/deadline.ts';
import { createLedger, type Ledger } from '../src/limiter/ledger.ts';
import type { DecisionRequest, Limiter, RequestPlan } from '../src/limiter/limiter.ts';

export interface PlannedDecision extends Omit<DecisionRequest, 'ledger'> {
  /** Plans the request by these rules. */
  readonly plan: (snapshot: Snapshot, deadline: Deadline) => RequestPlan | Promise<RequestPlan>;
  readonly ledger?: Ledger | undefined;
}

export async function decideInRounds(
  limiter: Limiter,
  { plan, ledger = createLedger(() => {}), ...asked }: PlannedDecision,
): Promise<Decision> {
  const request = { ...asked, ledger };
  try {
    let step = await limiter.begin(request);
    while (step.kind === 'round') step = await limiter.decide(step, await plan(step.snapshot, step.deadline));
    return step.decision;
  } catch (error) {
    return limiter.recover(request, error);
  }
}
