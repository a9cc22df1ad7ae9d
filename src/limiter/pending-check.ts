// One check of a request while the isolate asks regions: the answer of each region, and the result.

import { capacityOf, drainMs, hasBurst } from '../core/counting/capacity.ts';
import { type Outcome, outcomeWith } from '../core/counting/check.ts';
import type { CheckResult } from '../core/decision.ts';
import { isStandIn, type RuleCheck } from '../core/matching/plan.ts';
import type { Use } from './cessions.ts';
import { isShared, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region.ts';

/** The answer of a region (or of memory in its place) to a check. No outcome if the region has not answered. */
export interface Verdict {
  readonly check: RuleCheck;
  readonly outcome?: Outcome | undefined;
}

/** A check that is not decided yet. */
export interface Pending {
  readonly placed: PlacedCheck;
  /** The verdicts of regions that have not admitted the check: see `setVerdict`. */
  verdicts: ReadonlyMap<string, Verdict>;
  /** The answer of the region that has admitted the check. */
  admitted: Admitted | undefined;
  /** The region would have admitted this check, but another check was denied. */
  seen: CheckResult<RuleCheck> | undefined;
}

export interface Admitted {
  readonly region: LimiterRegion;
  readonly result: CheckResult<RuleCheck>;
  /** The outcome for the region's part; `result` has the one for the whole limit. */
  readonly outcome: Outcome;
}

/** One check that the isolate asks one region to count. */
export interface Turn {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** Mostly one. While a rule moves, a request may have two checks of the same counter. The region charges it once. */
  readonly ones: [Pending, ...Pending[]];
}

/** Adds a turn. If a moving rule has two placements in this region, the isolate sends only the stricter one. */
export function withTurn(turns: readonly Turn[], turn: Turn): readonly Turn[] {
  if (turns.length === 0) return [turn];
  const { check } = turn.ones[0].placed;
  const isTwin = (one: Turn) => one.region === turn.region && one.check.id === turn.check.id;
  const at = turns.findIndex((one) => isTwin(one) && one.ones[0].placed.check === check);
  const twin = turns[at];
  if (!twin) return [...turns, turn];
  const stricter = turn.check.limit < twin.check.limit ? turn : twin;
  return turns.with(at, { ...stricter, ones: [...twin.ones, ...turn.ones] });
}

/** The region of all these turns; undefined if there are several. */
export function onlyRegionOf(turns: readonly Turn[]): LimiterRegion | undefined {
  const [first] = turns;
  return turns.every(({ region }) => region === first?.region) ? first?.region : undefined;
}

const NO_VERDICTS: ReadonlyMap<string, Verdict> = new Map();

/** The check before the isolate asks any region. */
export const pendingOf = (placed: PlacedCheck): Pending => ({
  placed,
  verdicts: NO_VERDICTS,
  admitted: undefined,
  seen: undefined,
});

/** Makes a new map, because all checks start with the same empty one. Most checks are admitted at once and keep it. */
export function setVerdict(one: Pending, region: string, verdict: Verdict): void {
  one.verdicts = new Map(one.verdicts).set(region, verdict);
}

export const isUnanswered = (verdict: Verdict | undefined): boolean =>
  verdict !== undefined && verdict.outcome === undefined;

const denied = ({ verdicts }: Pending): Outcome[] =>
  [...verdicts.values()].flatMap(({ outcome }) => outcome ?? []);

/** Some region has denied the check, and none has admitted it. A region without an answer does not change that. */
export const isDenied = (one: Pending): boolean =>
  !one.admitted && !one.placed.check.isShadow && denied(one).length > 0;

/** The first denial of the check, with the shortest wait of all denials. The caller looks at `admitted` first. */
export function denialOf(one: Pending): CheckResult<RuleCheck> | undefined {
  const outcomes = denied(one);
  const [nearest] = outcomes;
  const check = [...one.verdicts.values()].find(({ outcome }) => outcome)?.check;
  if (!nearest || !check) return undefined;
  const waits = outcomes.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const retryAfterMs = waits.length > 0 ? Math.min(...waits) : undefined;
  return { check, outcome: { ...nearest, retryAfterMs } };
}

/**
 * The outcome for the whole limit, less the units that this and the earlier regions have used. A bucket drains at the
 * pace of the whole limit.
 */
export function asWhole({ placed, verdicts }: Pending, check: RuleCheck, outcome: Outcome): Outcome {
  if (!isShared(placed)) return outcome;
  const others = verdicts.size === 0 ? NO_ANSWERS : answersElsewhere(verdicts, check);
  const remaining = outcome.remaining + capacityOfAll(placed) - capacityOf(check) - usedIn(others);
  const resetAtMs = wholeResetAtMs(check, outcome, others);
  const isSame = remaining <= outcome.remaining && resetAtMs === outcome.resetAtMs;
  return isSame
    ? outcome
    : outcomeWith(outcome, { remaining: Math.max(remaining, outcome.remaining), resetAtMs });
}

interface Answered {
  readonly check: RuleCheck;
  readonly outcome: Outcome;
}

const NO_ANSWERS: readonly Answered[] = [];

const answersElsewhere = (verdicts: Pending['verdicts'], { region }: RuleCheck): readonly Answered[] =>
  [...verdicts.values()].flatMap(({ check, outcome }) =>
    outcome && check.region !== region ? [{ check, outcome }] : [],
  );

const usedIn = (answers: readonly Answered[]): number =>
  answers.reduce((sum, { check, outcome }) => sum + capacityOf(check) - outcome.remaining, 0);

function wholeResetAtMs(check: RuleCheck, outcome: Outcome, others: readonly Answered[]): number {
  const { nowMs, resetAtMs } = outcome;
  const isAlone = others.length === 0 && check.limit === check.full.limit;
  if (isAlone || nowMs === undefined || !hasBurst(check)) return resetAtMs;
  return nowMs + drainMs([{ check, outcome }, ...others].map(toBucket), check.full.limit);
}

const toBucket = ({ check: { algorithm, limit, extra, windowMs }, outcome }: Answered) => ({
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

/**
 * Undefined if the nearest region does not answer: no region could use parts that are ceded to it now. Also undefined if
 * a stand-in has decided: that says nothing about the parts.
 */
export function useOf({ placed, admitted, verdicts }: Pending, [nearest]: Regions): Use | undefined {
  if (isUnanswered(verdicts.get(nearest.name))) return undefined;
  if (admitted && admitted.result.check.id !== placed.check.id) return undefined;
  if (admitted)
    return { placed, region: admitted.region, counted: admitted.result.check, outcome: admitted.outcome };
  const verdict = [...verdicts.values()].find(({ check, outcome }) => outcome && !isStandIn(check));
  return verdict?.outcome && { placed, region: nearest, counted: verdict.check, outcome: verdict.outcome };
}
