// What the answers of regions to one check mean together: the outcome for the whole limit, the denial that clients read,
// and what the isolate does after the response. Everything here only reads; count.ts writes.

import { capacityOf, drainMs, hasBurst } from '../core/counting/capacity.ts';
import { type Outcome, outcomeWith, type SettleCheck } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import { isShared, type PlacedCheck } from '../core/regions/placement.ts';
import type { LimiterRegion, Regions } from './region.ts';
import type { Use } from './transfers.ts';

/** The answer of a region (or of memory in its place) to a check. No outcome if the region has not answered. */
export interface Verdict {
  readonly check: RuleCheck;
  readonly outcome?: Outcome | undefined;
  /** The region did not get the time that an answer takes. That it has not answered says nothing about it. */
  readonly isTooLate?: boolean | undefined;
}

/** The verdicts of regions that have not admitted a check, by region. */
export type Verdicts = ReadonlyMap<string, Verdict>;
export const NO_VERDICTS: Verdicts = new Map();

/** One check of a request while the isolate asks regions. Only count.ts writes it. */
export interface CheckState {
  readonly placed: PlacedCheck;
  verdicts: Verdicts;
  /** The answer of the region that has admitted the check. */
  admission: Admission | undefined;
  /** The region would have admitted this check, but another check was denied. */
  preview: CheckResult<RuleCheck> | undefined;
}

export const NOTHING: readonly never[] = [];

/** The check before the isolate asks any region. */
export const pendingOf = (placed: PlacedCheck): CheckState => ({
  placed,
  verdicts: NO_VERDICTS,
  admission: undefined,
  preview: undefined,
});

export interface Admission {
  readonly region: LimiterRegion;
  readonly result: CheckResult<RuleCheck>;
  /** The outcome for the region's part; `result` has the one for the whole limit. */
  readonly outcome: Outcome;
}

export const isAdmitted = ({ admission }: Readonly<CheckState>): boolean => admission !== undefined;

/** The region has charged this counter already, for another placement of the check and by a limit as strict. */
export const twinAdmission = (
  states: readonly CheckState[],
  check: RuleCheck,
  asked: { readonly region: LimiterRegion; readonly check: RuleCheck },
): Admission | undefined =>
  states.find(({ placed, admission }) => {
    const counted = admission?.region === asked.region ? admission.result.check : undefined;
    return placed.check === check && counted?.id === asked.check.id && counted.limit <= asked.check.limit;
  })?.admission;

/** Whether the counter must see denied requests, too. */
export const mustSeeEveryRequest = ({ placed: { check } }: Readonly<CheckState>): boolean =>
  check.countDenied === true || check.blockMs !== undefined;

export const isUnanswered = (verdict: Verdict | undefined): boolean =>
  verdict !== undefined && verdict.outcome === undefined;

/** The region had enough time, and did not answer. */
export const isFailure = (verdict: Verdict): boolean => isUnanswered(verdict) && verdict.isTooLate !== true;

interface OutcomeAt {
  readonly check: RuleCheck;
  readonly outcome: Outcome;
}

const outcomesIn = (verdicts: Verdicts): readonly OutcomeAt[] =>
  verdicts.size === 0
    ? NOTHING
    : [...verdicts.values()].flatMap(({ check, outcome }) => (outcome ? [{ check, outcome }] : []));

/** Some region has denied the check, and none has admitted it. A region without an answer does not change that. */
export const isDenied = ({ placed, verdicts, admission }: Readonly<CheckState>): boolean =>
  !admission && !placed.check.isShadow && outcomesIn(verdicts).length > 0;

/** The first denial of the check, with the shortest wait of all denials. The caller looks at `admission` first. */
export function denialOf({ verdicts }: Readonly<CheckState>): CheckResult<RuleCheck> | undefined {
  const denials = outcomesIn(verdicts);
  const [first] = denials;
  const waits = denials.flatMap(({ outcome }) => outcome.retryAfterMs ?? []);
  const retryAfterMs = waits.length > 0 ? Math.min(...waits) : undefined;
  return first && { check: first.check, outcome: { ...first.outcome, retryAfterMs } };
}

/**
 * The outcome for the whole limit, less the units that this and the earlier regions have used. A bucket drains at the
 * pace of the whole limit.
 */
export function wholeOutcome(
  placed: PlacedCheck,
  verdicts: Verdicts,
  check: RuleCheck,
  outcome: Outcome,
): Outcome {
  if (!isShared(placed)) return outcome;
  const others =
    verdicts.size === 0 ? NOTHING : outcomesIn(verdicts).filter((one) => one.check.region !== check.region);
  const remaining = outcome.remaining + capacityOfAll(placed) - capacityOf(check) - usedIn(others);
  const resetAtMs = wholeResetAtMs(check, outcome, others);
  const isSame = remaining <= outcome.remaining && resetAtMs === outcome.resetAtMs;
  return isSame
    ? outcome
    : outcomeWith(outcome, { remaining: Math.max(remaining, outcome.remaining), resetAtMs });
}

const usedIn = (outcomes: readonly OutcomeAt[]): number =>
  outcomes.reduce((sum, { check, outcome }) => sum + capacityOf(check) - outcome.remaining, 0);

function wholeResetAtMs(check: RuleCheck, outcome: Outcome, others: readonly OutcomeAt[]): number {
  const { nowMs, resetAtMs } = outcome;
  const isAlone = others.length === 0 && check.limit === check.full.limit;
  if (isAlone || nowMs === undefined || !hasBurst(check)) return resetAtMs;
  return nowMs + drainMs([{ check, outcome }, ...others].map(toBucket), check.full.limit);
}

const toBucket = ({ check: { algorithm, limit, extra, windowMs }, outcome }: OutcomeAt) => ({
  algorithm,
  limit,
  extra,
  windowMs,
  remaining: outcome.remaining,
  freeInMs: outcome.resetAtMs - (outcome.nowMs ?? outcome.resetAtMs),
});

function capacityOfAll({ check: { algorithm }, parts }: PlacedCheck): number {
  let sum = 0;
  for (const { limit, extra } of parts.values()) sum += capacityOf({ algorithm, limit, extra });
  return sum;
}

export function usesOf(states: readonly CheckState[], regions: Regions): readonly Use[] {
  const uses: Use[] = [];
  for (const state of states) {
    const use = useOf(state, regions);
    if (use) uses.push(use);
  }
  return uses;
}

/**
 * How the request has used the check. Undefined if the nearest region does not answer: no region could use parts that
 * are transferred to it now. Also undefined if a stand-in has decided: that says nothing about the parts.
 */
function useOf({ placed, admission, verdicts }: Readonly<CheckState>, [nearest]: Regions): Use | undefined {
  if (isUnanswered(verdicts.get(nearest.name))) return undefined;
  if (!admission) {
    const denial = outcomesIn(verdicts).find(({ check }) => !isStandIn(check));
    return denial && { placed, region: nearest, counted: denial.check, outcome: denial.outcome };
  }
  const { region, result, outcome } = admission;
  return isStandIn(result.check) ? undefined : { placed, region, counted: result.check, outcome };
}

// When a rule with a bucket moves, the counter in its new region starts empty, and a bucket under load never empties, so
// the old level would be forgotten. While both regions count, Weir raises the new bucket to the level of the old one
// after responses. Windows need none of this: they end.

/** Units that a bucket should also have used. */
export interface Shortfall {
  readonly region: LimiterRegion;
  readonly check: SettleCheck;
}

/** The units that only the old region of a moving rule has counted, as a charge for the new region. */
export function shortfallsOf(states: readonly CheckState[], nowMs: number): Shortfall[] {
  return states.flatMap((newer, i) => {
    const older = states[i - 1];
    // A check that is counted twice is in the list twice, older first.
    if (older?.placed.check !== newer.placed.check) return [];
    const [before, after] = [levelOf(older), levelOf(newer)];
    if (!before || !after || before.units <= after.units) return [];
    const { region, check, units } = after;
    const lacking = { ...check, cost: before.units - units, mostUnits: before.units, chargedAtMs: nowMs };
    return [{ region, check: lacking }];
  });
}

/** Units used in a bucket that one region counts alone. */
function levelOf({ placed, admission }: Readonly<CheckState>) {
  if (!admission || placed.at === undefined || !hasBurst(placed.check)) return undefined;
  const { region, outcome, result } = admission;
  if (isStandIn(result.check)) return undefined;
  return { region, check: result.check, units: capacityOf(result.check) - outcome.remaining };
}
