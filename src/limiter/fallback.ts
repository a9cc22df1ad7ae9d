// The limiter of one isolate, for when no region answers. It runs the same algorithms on counters in memory and knows
// nothing of other isolates. So a `local` rule gives the isolate only its part of the limit. An `open` rule gives it
// the whole limit, so that it denies nobody whom the region would have admitted. A coarse cap covers all requests.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { hasBurst } from '../core/counting/capacity.ts';
import { createBoundedCounters, runChecks } from '../core/counting/counters.ts';
import { type DegradedDecision, type DegradedReason, denyingResults } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { type CounterStore, operationsBy } from '../core/ports/region.ts';
import { createPerSecondBudget } from '../core/time.ts';
import type { Ledger } from './ledger.ts';

const MAX_COUNTERS = 10_000;

export interface LocalLimiterOptions {
  readonly now: () => number;
  /** Requests a second that pass although no region counts them; 0 means no cap. */
  readonly capPerSecond: number;
}

export interface FallbackRequest {
  readonly reason: DegradedReason;
  /** Undefined if there are no rules. */
  readonly checks?: readonly RuleCheck[] | undefined;
  /** Gets the charges that the isolate makes in memory. */
  readonly ledger: Pick<Ledger, 'noteCharge'>;
  /** How many isolates share the limits of the nearest region, as far as this one knows. */
  readonly isolates: number;
  readonly regions: number;
}

export function createLocalLimiter({ now, capPerSecond }: LocalLimiterOptions) {
  const counters = createBoundedCounters(MAX_COUNTERS);
  const cap = createPerSecondBudget(capPerSecond);
  const store: CounterStore = {
    ...operationsBy(async (operation, { checks }) => runChecks(operation, checks, now(), counters)),
    reset: async () => {},
    probe: async () => {},
  };

  const count = (checks: readonly RuleCheck[], sharing: Sharing) => {
    const localChecks = checks.map((check) => toLocalCheck(check, sharing));
    const { nowMs, outcomes } = runChecks('take', localChecks, now(), counters);
    const results = localChecks.flatMap((check, i) => {
      const outcome = outcomes[i];
      return outcome ? [{ check, outcome }] : [];
    });
    return { nowMs, results };
  };

  return {
    decide({ reason, checks = [], ledger, ...sharing }: FallbackRequest): DegradedDecision {
      const degraded = { kind: 'degraded', reason } as const;
      const enforced = checks.filter(({ isShadow }) => !isShadow);
      if (enforced.some(({ rule }) => rule.onUnavailable === 'closed'))
        return { ...degraded, allowed: false, fallback: 'closed' };
      // If only shadow rules apply, the cap does not hold the request back either.
      const isCapped = checks.length === 0 || enforced.length > 0;
      if (isCapped && !cap.hasRoom(now())) return { ...degraded, allowed: false, fallback: 'cap' };
      const local = count(checks, sharing);
      const denying = denyingResults(local.results).map(({ check }) => check);
      const allowed = denying.length === 0;
      // A denied request charges no rule.
      if (allowed) {
        if (isCapped) cap.take();
        for (const { check, outcome } of local.results)
          if (outcome.allowed) ledger.noteCharge(store, check, local.nowMs);
      }
      // The rules that decided: those that deny, or all of them.
      const isLocal = (allowed ? enforced : denying).some(({ rule }) => rule.onUnavailable === 'local');
      return { ...degraded, allowed, fallback: isLocal ? 'local' : 'open', local };
    },
  };
}

type Sharing = Pick<FallbackRequest, 'isolates' | 'regions'>;

function toLocalCheck(check: RuleCheck, { isolates, regions }: Sharing): RuleCheck {
  const isDivided = check.rule.onUnavailable === 'local';
  const { localTwin } = traitsOf(check.algorithm);
  const counted = {
    ...check,
    ...(!isDivided && check.full),
    ...(isDivided ? localTwin?.strict : localTwin?.lenient),
  };
  // A limit that is not split is shared by the isolates of all regions.
  const isWhole = check.limit === check.full.limit;
  return isDivided ? divided(counted, isWhole ? isolates * regions : isolates) : counted;
}

/** The isolate's part of the limit, with room for at least one request. A burst shrinks in proportion. */
function divided(check: RuleCheck, isolates: number): RuleCheck {
  const { extra, cost } = check;
  const limit = Math.min(check.limit, Math.max(cost, Math.floor(check.limit / isolates)));
  if (extra === undefined || !hasBurst(check)) return { ...check, limit };
  const burst = Math.min(extra, Math.max(cost, Math.floor((extra * limit) / check.limit)));
  return { ...check, limit, extra: burst };
}
