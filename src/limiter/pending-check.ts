// A check of a request on its way over regions: what each of them has said, and what that comes to.
import { type Outcome, outcomeWith } from '../core/counting/check.ts';
import type { CheckResult } from '../core/counting/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { capacityOf } from '../core/regions/shares.ts';
import type { Use } from './cessions.ts';
import { isShared, type PlacedCheck } from './placed-checks.ts';
import type { LimiterRegion, Regions } from './region-ladder.ts';

/** What a region has said of a check, or memory for it; no outcome if it has not answered. */
export interface Verdict {
  readonly check: RuleCheck;
  readonly outcome?: Outcome | undefined;
}

/** A check on its way. */
export interface Pending {
  readonly placed: PlacedCheck;
  /** Of regions that have not admitted it. */
  readonly verdicts: Map<string, Verdict>;
  /** By the region that has admitted it. */
  admitted: Admitted | undefined;
  /** It would have been admitted, had all the others been. */
  seen: CheckResult<RuleCheck> | undefined;
}

export interface Admitted {
  readonly region: LimiterRegion;
  readonly result: CheckResult<RuleCheck>;
  /** As the region told it. */
  readonly outcome: Outcome;
}

/** A region is asked to count a check. */
export interface Turn {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
  /** Mostly one. While a rule is being moved, a request may be up against one counter in two ways: it is charged once. */
  readonly ones: [Pending, ...Pending[]];
}

/** At the start. */
export const pendingOf = (placed: PlacedCheck): Pending => ({
  placed,
  verdicts: new Map(),
  admitted: undefined,
  seen: undefined,
});

export const isUnanswered = (verdict: Verdict | undefined): boolean =>
  verdict !== undefined && verdict.outcome === undefined;

const denied = ({ verdicts }: Pending): Outcome[] =>
  [...verdicts.values()].flatMap(({ outcome }) => outcome ?? []);

/** Some region has denied it, and none has admitted it. One that cannot be asked does not overrule that. */
export const isDenied = (one: Pending): boolean =>
  !one.admitted && !one.placed.check.log && denied(one).length > 0;

/** It passes as soon as one of the regions lets it pass. */
export function denialOf(one: Pending): CheckResult<RuleCheck> | undefined {
  const outcomes = denied(one);
  const [nearest] = outcomes;
  const check = [...one.verdicts.values()].find(({ outcome }) => outcome)?.check;
  if (!nearest || !check) return undefined;
  const waits = outcomes.flatMap(({ retryAfterMs }) => retryAfterMs ?? []);
  const retryAfterMs = waits.length > 0 ? Math.min(...waits) : undefined;
  return { check, outcome: { ...nearest, retryAfterMs } };
}

/** What is left of the whole: less what is known to be used, here and where it was tried before. */
export function asWhole({ placed, verdicts }: Pending, check: RuleCheck, outcome: Outcome): Outcome {
  if (!isShared(placed)) return outcome;
  const others = [...verdicts.values()].filter((one) => one.outcome && one.check.region !== check.region);
  const used = others.reduce((sum, one) => sum + capacityOf(one.check) - (one.outcome?.remaining ?? 0), 0);
  const remaining = outcome.remaining + capacityOfAll(placed) - capacityOf(check) - used;
  return remaining > outcome.remaining ? outcomeWith(outcome, { remaining }) : outcome;
}

const capacityOfAll = ({ check, parts }: PlacedCheck): number =>
  [...parts.values()].reduce(
    (sum, { limit, extra }) => sum + capacityOf({ algorithm: check.algorithm, limit, extra }),
    0,
  );

/** Nothing if the nearest region does not answer: parts that it was given now would be lost to all. */
export function useOf({ placed, admitted, verdicts }: Pending, [nearest]: Regions): Use | undefined {
  if (isUnanswered(verdicts.get(nearest.name))) return undefined;
  if (admitted)
    return { placed, region: admitted.region, counted: admitted.result.check, outcome: admitted.outcome };
  const verdict = [...verdicts.values()].find(({ outcome }) => outcome);
  return verdict?.outcome && { placed, region: nearest, counted: verdict.check, outcome: verdict.outcome };
}
