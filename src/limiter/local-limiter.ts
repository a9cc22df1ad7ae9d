// The limiter of one isolate, for when no region answers: the same algorithms, on counters in its own memory. It knows
// nothing of what other isolates admit. A rule that is `local` therefore allows it only its part; one that is `open`
// allows it everything, so that nobody is denied who would have passed. Over all of it there is a coarse cap.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { createBoundedCounters } from '../core/counting/bounded-counters.ts';
import { runChecks } from '../core/counting/counters.ts';
import { type DegradedDecision, type DegradedReason, denyingResults } from '../core/counting/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { createPerSecondBudget } from '../core/per-second-budget.ts';
import type { CounterStore } from '../core/ports/counter-store.ts';
import { hasBurst } from '../core/regions/shares.ts';
import type { Ledger } from './ledger.ts';

const MAX_COUNTERS = 10_000;
const LOG_BUCKETS = 10;

export interface LocalLimiterOptions {
  readonly now: () => number;
  /** Requests a second that pass although no region counts them; 0 for any number. */
  readonly capPerSecond: number;
}

export interface Uncounted {
  readonly reason: DegradedReason;
  /** Undefined if there are no rules. */
  readonly checks?: readonly RuleCheck[] | undefined;
  /** What this isolate charges is noted there. */
  readonly ledger: Pick<Ledger, 'noteCharge'>;
  /** That are thought to share what the rules allow in the nearest region. */
  readonly isolates: number;
  readonly regions: number;
}

export interface LocalLimiter {
  decide(uncounted: Uncounted): DegradedDecision;
}

export function createLocalLimiter({ now, capPerSecond }: LocalLimiterOptions): LocalLimiter {
  const counters = createBoundedCounters(MAX_COUNTERS);
  const cap = createPerSecondBudget(capPerSecond);
  const store: CounterStore = {
    run: async ({ operation, checks }) => runChecks(operation, checks, now(), counters),
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
    decide({ reason, checks = [], ledger, ...sharing }) {
      const degraded = { kind: 'degraded', reason } as const;
      const enforced = checks.filter(({ log }) => !log);
      if (enforced.some(({ rule }) => rule.onUnavailable === 'closed'))
        return { ...degraded, allowed: false, fallback: 'closed' };
      // What no rule holds back is not held back here either.
      const isCapped = checks.length === 0 || enforced.length > 0;
      if (isCapped && !cap.hasRoom(now())) return { ...degraded, allowed: false, fallback: 'cap' };
      const local = count(checks, sharing);
      const denying = denyingResults(local.results).map(({ check }) => check);
      const allowed = denying.length === 0;
      // A denied request takes nothing from the others.
      if (allowed) {
        if (isCapped) cap.take();
        for (const { check, outcome } of local.results)
          if (outcome.allowed) ledger.noteCharge(store, check, local.nowMs);
      }
      // What the rules are that decided: those that deny, or all of them.
      const isLocal = (allowed ? enforced : denying).some(({ rule }) => rule.onUnavailable === 'local');
      return { ...degraded, allowed, fallback: isLocal ? 'local' : 'open', local };
    },
  };
}

type Sharing = Pick<Uncounted, 'isolates' | 'regions'>;

function toLocalCheck(check: RuleCheck, { isolates, regions }: Sharing): RuleCheck {
  const isDivided = check.rule.onUnavailable === 'local';
  const withoutLog = {
    ...check,
    ...(!isDivided && check.full),
    ...(isLog(check) && insteadOfLog(isDivided)),
  };
  // What is not split is shared by the isolates of all regions.
  const isWhole = check.limit === check.full.limit;
  return isDivided ? divided(withoutLog, isWhole ? isolates * regions : isolates) : withoutLog;
}

const isLog = ({ algorithm }: RuleCheck): boolean => {
  const { mostUnits, holdsSeats } = traitsOf(algorithm);
  return mostUnits !== undefined && !holdsSeats;
};

/**
 * The log of every request could take all of the memory. Where it is not to admit more, buckets stand in for it; where
 * it is not to deny anybody else, a window.
 */
const insteadOfLog = (isDivided: boolean) =>
  isDivided
    ? ({ algorithm: 'sliding-window-buckets', extra: LOG_BUCKETS } as const)
    : ({ algorithm: 'fixed-window', extra: undefined } as const);

/** Room for one request at least, as far as the rule itself has it. A burst is cut as much as its limit is. */
function divided(check: RuleCheck, isolates: number): RuleCheck {
  const { extra, cost } = check;
  const limit = Math.min(check.limit, Math.max(cost, Math.floor(check.limit / isolates)));
  if (extra === undefined || !hasBurst(check)) return { ...check, limit };
  const burst = Math.min(extra, Math.max(cost, Math.floor((extra * limit) / check.limit)));
  return { ...check, limit, extra: burst };
}
