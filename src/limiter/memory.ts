// What this isolate has in memory about the checks of a request: leases that pay for them, and denials.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { RegionalCount } from './count.ts';
import type { Leasing } from './leases.ts';
import { needsFollowUp } from './ledger.ts';
import type { DecisionRequest } from './limiter.ts';
import type { PlacedCheck, Placing } from './next-region.ts';

export interface Known {
  readonly enforced: readonly PlacedCheck[];
  /** Shadow rules that are counted after the response. */
  readonly shadow: readonly PlacedCheck[];
  /** The enforced checks that this isolate has leased units for, and the others. */
  readonly leased: readonly PlacedCheck[];
  readonly open: readonly PlacedCheck[];
  /** The results of a denial that memory knows; the denial takes no call. */
  readonly denial: readonly CheckResult<RuleCheck>[] | undefined;
}

export interface DecisionMemory {
  lookUp(request: DecisionRequest, snapshot: Snapshot, checks: readonly RuleCheck[]): Known;
  /** Whether one of these checks denies the request. */
  isKnownDenied(request: DecisionRequest, snapshot: Snapshot, checks: readonly RuleCheck[]): boolean;
}

export interface DecisionMemoryOptions {
  readonly placing: Placing;
  readonly leasing: Leasing;
  readonly regional: Pick<RegionalCount, 'knownDenial'>;
  /** See `Moment`. */
  readonly announcement: () => string;
}

export function createDecisionMemory(options: DecisionMemoryOptions): DecisionMemory {
  const { placing, leasing, regional, announcement } = options;

  /**
   * With several regions, shadow rules are counted after the response, so that no request waits for them. Rules that
   * settle later are counted now, because the ledger needs the charge.
   */
  const placeAll = (
    { regions, operation }: DecisionRequest,
    { split }: Snapshot,
    checks: readonly RuleCheck[],
  ) => {
    const place = (some: readonly RuleCheck[]) => placing.place(some, regions, split);
    const mayWait = regions.length > 1 && operation === 'take';
    const isLater = (check: RuleCheck) => check.isShadow === true && mayWait && !needsFollowUp(check);
    if (!checks.some(isLater)) return { enforced: place(checks), shadow: [] };
    return {
      enforced: place(checks.filter((check) => !isLater(check))),
      shadow: place(checks.filter(isLater)),
    };
  };

  const denialOf = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) =>
    operation === 'take' && placed.length > 0
      ? regional.knownDenial({ placed, regions, announcement: announcement() })
      : undefined;

  const lookUp: DecisionMemory['lookUp'] = (request, snapshot, checks) => {
    const { enforced, shadow } = placeAll(request, snapshot, checks);
    const leased = leasing.find(enforced, request);
    const open = leased.length === 0 ? enforced : enforced.filter((one) => !leased.includes(one));
    return { enforced, shadow, leased, open, denial: denialOf(request, open) };
  };

  return {
    lookUp,
    // Judges as the decision will: otherwise leased units could admit a request whose caller was not looked up.
    isKnownDenied: (...asked) => lookUp(...asked).denial !== undefined,
  };
}

// The isolate remembers each denial until its retry time and answers repeats from memory. It keeps only denials that
// nothing can end earlier. So it keeps no denial of a rule whose seats may be released, whose charges may be given
// back, or whose counter the next denied request would change.

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
