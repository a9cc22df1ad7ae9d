// Around every decision: no request fails because of a mistake in the limiter, no mistake goes unnoticed, and what is to
// be found out about regions is found out after the response.

import type { Decision, DegradedDecision } from '../core/counting/decision.ts';
import type { AfterResponse } from '../core/matching/caller.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { DecisionRequest, Limiter } from './limiter.ts';
import { reasonOf } from './region-ladder.ts';

export interface GuardOptions {
  readonly decide: Limiter['decide'];
  /** What this isolate decides for itself. */
  readonly degraded: (
    request: DecisionRequest,
    why: Pick<DegradedDecision, 'reason' | 'checks'>,
  ) => DegradedDecision;
  readonly onBug: (error: unknown) => void;
}

export function createGuard({ decide, degraded, onBug }: GuardOptions): Limiter {
  /** As the rules say, if they are known. If not even they can be asked, the request goes on. */
  const decideAnyway = (
    request: DecisionRequest,
    error: unknown,
    checks?: readonly RuleCheck[],
  ): Decision => {
    const reason = reasonOf(error);
    if (reason === 'internal-error') onBug(error);
    try {
      return degraded(request, { reason, checks });
    } catch (another) {
      onBug(another);
      return degraded(request, { reason, checks: undefined });
    }
  };

  return {
    async decide(asked) {
      let checks: readonly RuleCheck[] | undefined;
      const afterResponse: AfterResponse = (work) => asked.afterResponse(work.catch(onBug));
      const plan: DecisionRequest['plan'] = async (...given) => {
        const planned = await asked.plan(...given);
        checks = planned.kind === 'checks' ? planned.checks : undefined;
        return planned;
      };
      try {
        return await decide({ ...asked, plan, afterResponse });
      } catch (error) {
        return decideAnyway(asked, error, checks);
      } finally {
        for (const { watch } of asked.regions) watch.look(afterResponse);
      }
    },
  };
}
