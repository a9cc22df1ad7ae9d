// The isolate remembers each denial until its retry time and answers repeats from memory. It keeps only denials that
// nothing can end earlier. So it keeps no denial of a rule whose seats may be released, whose charges may be given
// back, or whose counter the next denied request would change.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';

const MAX_DENIALS = 10_000;
/** As a precaution, the isolate asks the region again after this time, even for a request that can never pass. */
const NEVER_MS = 60_000;

/** When a region was asked, by the clock of this isolate; and when it answered, by its own. */
export interface Moment {
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
  /** The announcement in force. Denials under another announcement no longer count. */
  readonly announcement: string;
}

interface Denial extends Omit<Moment, 'announcement'>, Pick<RuleCheck, 'limit' | 'extra' | 'cost'> {
  readonly outcome: Outcome;
}

export interface KnownDenials {
  /** An upper bound for the number of denials in memory. */
  readonly size: number;
  /** The denial that the region would give now; undefined if the isolate must ask it. */
  find(region: string, check: RuleCheck, nowMs: number, announcement: string): Outcome | undefined;
  remember(region: string, check: RuleCheck, outcome: Outcome, moment: Moment): void;
}

export function createKnownDenials(maxEntries = MAX_DENIALS): KnownDenials {
  let denials = createBoundedCache<Denial>(maxEntries);
  let current = '';

  const enter = (announcement: string) => {
    if (announcement === current) return;
    current = announcement;
    denials = createBoundedCache<Denial>(maxEntries);
  };

  const denialOf = (region: string, check: RuleCheck, nowMs: number): Denial | undefined => {
    const denial = denials.get(nameOf(region, check), nowMs);
    // A denial with another limit says nothing about this limit. Nor does a denial from before the clock was put back.
    const isSame = denial && denial.limit === check.limit && denial.extra === check.extra;
    return isSame && denial.cost === check.cost && denial.askedAtMs <= nowMs ? denial : undefined;
  };

  return {
    get size() {
      return denials.size;
    },
    find(region, check, nowMs, announcement) {
      enter(announcement);
      if (denials.size === 0 || !isLasting(check)) return undefined;
      const denial = denialOf(region, check, nowMs);
      return denial && outcomeAt(denial, nowMs);
    },

    remember(region, check, outcome, { askedAtMs, answeredAtMs, announcement }) {
      enter(announcement);
      if (outcome.allowed || !isLasting(check)) return;
      const { limit, extra, cost } = check;
      const denial = { limit, extra, cost, askedAtMs, answeredAtMs, outcome };
      // Counts from the moment of asking. Redis judged later than that, so no denial outlives its reason.
      denials.set(nameOf(region, check), denial, askedAtMs + (outcome.retryAfterMs ?? NEVER_MS));
    },
  };
}

const nameOf = (region: string, { id, key }: RuleCheck) => `${region} ${id} ${key}`;

/** Whether the denial stands until its retry time, whatever happens meanwhile. */
function isLasting({
  algorithm,
  countDenied,
  isShadow,
  rule,
  blockMs,
  windowMs,
  cost,
  limit,
}: RuleCheck): boolean {
  if (traitsOf(algorithm).holdsSeats || countDenied || isShadow) return false;
  // The block may end before there is room, and then the next request must begin a new one.
  if (blockMs && (blockMs < 2 * windowMs || cost > limit)) return false;
  return rule.action === 'reject' && !rule.refundOnError && !rule.costFromOrigin && !rule.isReturnable;
}

function outcomeAt({ askedAtMs, answeredAtMs, outcome }: Denial, nowMs: number): Outcome {
  const { retryAfterMs } = outcome;
  const passedMs = nowMs - askedAtMs;
  const waitMs = retryAfterMs === undefined ? undefined : Math.max(1, retryAfterMs - passedMs);
  return { ...outcome, retryAfterMs: waitMs, nowMs: answeredAtMs + passedMs };
}
