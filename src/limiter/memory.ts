// What this isolate has in memory about the checks of a request: leases that pay for them, and denials.

import { createBoundedCache } from '../core/bounded-cache.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { Snapshot } from '../core/matching/snapshot.ts';
import type { PlaceChecks, PlacedCheck } from '../core/regions/placement.ts';
import type { DenialRequest } from './count.ts';
import type { LeaseUse } from './lease-use.ts';
import { type Charge, needsFollowUp } from './ledger.ts';
import type { DecisionRequest } from './limiter.ts';
import { nameOf } from './transfers.ts';

/** The checks of a request, sorted by what memory knows about them. */
export interface SortedChecks {
  readonly enforced: readonly PlacedCheck[];
  /** Shadow rules that are counted after the response. */
  readonly shadow: readonly PlacedCheck[];
  /** The enforced checks that this isolate has leased units for, and the others. */
  readonly leased: readonly PlacedCheck[];
  readonly open: readonly PlacedCheck[];
  /** The results of a denial that memory knows; the denial takes no call. */
  readonly denial: readonly CheckResult<RuleCheck>[] | undefined;
}

interface DecisionMemoryOptions {
  readonly place: PlaceChecks;
  readonly leasing: LeaseUse;
  /** See count.ts. */
  readonly knownDenial: (request: DenialRequest) => CheckResult<RuleCheck>[] | undefined;
  /** See `Moment`. */
  readonly announcement: () => string;
}

export function createDecisionMemory(options: DecisionMemoryOptions) {
  const { place, leasing, knownDenial, announcement } = options;

  /**
   * With several regions, shadow rules are counted after the response, so that no request waits for them. Rules that
   * settle later are counted now, because the ledger needs the charge.
   */
  const placeAll = (
    { regions, operation }: DecisionRequest,
    { split }: Snapshot,
    checks: readonly RuleCheck[],
  ) => {
    const mayWait = regions.length > 1 && operation === 'take';
    const isLater = (check: RuleCheck) => check.isShadow === true && mayWait && !needsFollowUp(check);
    if (!checks.some(isLater)) return { enforced: place(checks, regions, split), shadow: NONE };
    const { later = [], now = [] } = Object.groupBy(checks, (check) => (isLater(check) ? 'later' : 'now'));
    return { enforced: place(now, regions, split), shadow: place(later, regions, split) };
  };

  const denialOf = ({ operation, regions }: DecisionRequest, placed: readonly PlacedCheck[]) =>
    operation === 'take' && placed.length > 0
      ? knownDenial({ placed, regions, announcement: announcement() })
      : undefined;

  const sort = (request: DecisionRequest, snapshot: Snapshot, checks: readonly RuleCheck[]): SortedChecks => {
    const { enforced, shadow } = placeAll(request, snapshot, checks);
    const leased = leasing.find(enforced, request);
    const open = leased.length === 0 ? enforced : enforced.filter((one) => !leased.includes(one));
    return { enforced, shadow, leased, open, denial: denialOf(request, open) };
  };

  return { sort };
}

const NONE: readonly PlacedCheck[] = [];

export const NO_CHECKS: SortedChecks = {
  enforced: NONE,
  shadow: NONE,
  leased: NONE,
  open: NONE,
  denial: undefined,
};

// The isolate remembers each denial until its retry time and answers repeats from memory. It keeps only denials that
// nothing can end earlier. So it keeps no denial of a rule whose seats may be released, whose charges may be given
// back, or whose counter the next denied request would change.

const MAX_DENIALS = 10_000;
/** For this long after a charge was given back, no denial of its counter is remembered: the charge may have caused it. */
const UNSETTLED_MS = 5_000;
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

export type KnownDenials = ReturnType<typeof createKnownDenials>;

export function createKnownDenials(maxEntries = MAX_DENIALS) {
  let denials = createBoundedCache<Denial>(maxEntries);
  const unsettled = createBoundedCache<true>(maxEntries);
  let current = '';

  const enter = (announcement: string) => {
    if (announcement === current) return;
    current = announcement;
    denials = createBoundedCache<Denial>(maxEntries);
  };

  return {
    /** An upper bound for the number of denials in memory. */
    get size() {
      return denials.size;
    },

    /** The denial that the region would give now; undefined if the isolate must ask it. */
    find(region: string, check: RuleCheck, nowMs: number, announcement: string): Outcome | undefined {
      enter(announcement);
      if (denials.size === 0 || !isLasting(check)) return undefined;
      const denial = denials.get(denialName(region, check), nowMs);
      // A denial with another limit says nothing about this limit. Nor does a denial from before the clock was put back.
      const isSame = denial && denial.limit === check.limit && denial.extra === check.extra;
      if (!isSame || denial.cost !== check.cost || denial.askedAtMs > nowMs) return undefined;
      return outcomeAt(denial, nowMs);
    },

    remember(region: string, check: RuleCheck, outcome: Outcome, moment: Moment): void {
      const { askedAtMs, answeredAtMs, announcement } = moment;
      enter(announcement);
      if (outcome.allowed || !isLasting(check) || unsettled.get(nameOf(check), askedAtMs)) return;
      const { limit, extra, cost } = check;
      const denial = { limit, extra, cost, askedAtMs, answeredAtMs, outcome };
      // Counts from the moment of asking. Redis judged later than that, so no denial outlives its reason.
      denials.set(denialName(region, check), denial, askedAtMs + (outcome.retryAfterMs ?? NEVER_MS));
    },

    /** Called when charges are given back. A caller that they have denied may then pass before its retry time. */
    unsettle(charges: readonly Pick<Charge, 'check'>[], nowMs: number): void {
      for (const { check } of charges) unsettled.set(nameOf(check), true, nowMs + UNSETTLED_MS);
    },
  };
}

const denialName = (region: string, check: RuleCheck) => `${region} ${nameOf(check)}`;

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
