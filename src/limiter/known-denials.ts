// Denials that are remembered until exactly the moment they end: meanwhile the subject is denied at no cost to Redis.
// Kept is only what nothing can end earlier: no lease that may be released, no charge that may be given back, and
// nothing that a denied request would still change.
import { createBoundedCache } from '../core/bounded-cache.ts';
import type { Outcome } from '../core/check.ts';
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/plan.ts';

const MOST_DENIALS = 10_000;
/** What can never pass is asked about again after a while, as a precaution. */
const NEVER_MS = 60_000;

interface Denial {
  readonly limit: number;
  readonly extra: number | undefined;
  readonly cost: number;
  /** By the clock of this isolate, when Redis was asked; and by the clock of Redis, when it answered. */
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  readonly outcome: Outcome;
}

export interface KnownDenial {
  /** By the clock of Redis. */
  readonly nowMs: number;
  /** Of those checks alone that are known to deny. */
  readonly results: readonly CheckResult<RuleCheck>[];
}

export interface KnownDenials {
  /** Undefined if Redis must be asked. `era`: what was learned in another one no longer counts. */
  find(region: string, checks: readonly RuleCheck[], nowMs: number, era: string): KnownDenial | undefined;
  remember(region: string, answer: KnownDenial, askedAtMs: number, era: string): void;
}

export function createKnownDenials(maxEntries = MOST_DENIALS): KnownDenials {
  let denials = createBoundedCache<Denial>(maxEntries);
  let currentEra = '';

  const enter = (era: string) => {
    if (era === currentEra) return;
    currentEra = era;
    denials = createBoundedCache<Denial>(maxEntries);
  };

  const denialOf = (region: string, check: RuleCheck, nowMs: number): Denial | undefined => {
    const denial = denials.get(nameOf(region, check), nowMs);
    // Another limit is another question; and so it is after the clock was put back.
    const isSame = denial && denial.limit === check.limit && denial.extra === check.extra;
    return isSame && denial.cost === check.cost && denial.askedAtMs <= nowMs ? denial : undefined;
  };

  return {
    find(region, checks, nowMs, era) {
      enter(era);
      if (denials.size === 0 || checks.some(({ countDenied }) => countDenied)) return undefined;
      let redisNowMs = 0;
      const results: CheckResult<RuleCheck>[] = [];
      for (const check of checks) {
        const denial = isLasting(check) ? denialOf(region, check, nowMs) : undefined;
        if (denial) {
          results.push({ check, outcome: outcomeAt(denial, nowMs) });
          redisNowMs = denial.answeredAtMs + nowMs - denial.askedAtMs;
        }
        // Whether it would block from now on, only Redis can tell.
        else if (check.blockMs) return undefined;
      }
      return results.length > 0 ? { nowMs: redisNowMs, results } : undefined;
    },

    remember(region, { nowMs: answeredAtMs, results }, askedAtMs, era) {
      enter(era);
      for (const { check, outcome } of results) {
        if (outcome.allowed || !isLasting(check)) continue;
        const { limit, extra, cost } = check;
        const denial = { limit, extra, cost, askedAtMs, answeredAtMs, outcome };
        // From when it was asked: Redis has judged later than that, so no denial outlives its reason.
        denials.set(nameOf(region, check), denial, askedAtMs + (outcome.retryAfterMs ?? NEVER_MS));
      }
    },
  };
}

/** A check that is counted in another region than the others says so. */
const nameOf = (region: string, check: RuleCheck) => `${check.region ?? region} ${check.id} ${check.key}`;

/** Whether a denial stands until its retry time, whatever happens. */
function isLasting({ algorithm, countDenied, rule, blockMs, windowMs, cost, limit }: RuleCheck): boolean {
  if (algorithm === 'concurrency' || countDenied) return false;
  // A block that may end before there is room is begun again by whoever comes then.
  if (blockMs && (blockMs < 2 * windowMs || cost > limit)) return false;
  return rule.action === 'reject' && !rule.refundOnError && !rule.costFromOrigin;
}

function outcomeAt({ askedAtMs, outcome }: Denial, nowMs: number): Outcome {
  const { retryAfterMs } = outcome;
  return retryAfterMs === undefined
    ? outcome
    : { ...outcome, retryAfterMs: Math.max(1, retryAfterMs - (nowMs - askedAtMs)) };
}
