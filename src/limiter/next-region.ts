// Which region the isolate asks next about a check (to count it, to stand in for its owner, or for its part), and how
// long the request waits for the answer. Everything here only reads.
//
// While the owner of a counter does not answer, another region stands in for it. It counts in a counter of another id,
// with the whole limit. Which region that is depends on the owner, not on the caller, so all isolates that cannot reach
// the owner agree on it, and at most the limit passes once more. When the owner answers again, no isolate asks the
// stand-in any more. Its counter expires by itself. docs/regions.md explains the rest.

import { isStandIn, type RuleCheck, standInAt } from '../core/matching/plan.ts';
import { isUsable } from '../core/regions/parts.ts';
import type { CountRequest } from './count.ts';
import type { Deadline } from './deadline.ts';
import {
  FAIR_PART,
  isClosed,
  type LimiterRegion,
  LONGEST_MS,
  type Regions,
  TIMEOUT_FACTOR,
} from './region.ts';
import type { TransferRequest, Transfers } from './transfers.ts';
import { type CheckState, isFailure, isUnanswered } from './verdicts.ts';

/** A region to ask, and the check as it counts it. */
export interface RegionCandidate {
  readonly region: LimiterRegion;
  readonly check: RuleCheck;
}

/** One check that the isolate asks one region to count. */
export interface Turn extends RegionCandidate {
  /** Mostly one. While a rule moves, a request may have two checks of the same counter. The region charges it once. */
  readonly states: readonly [CheckState, ...CheckState[]];
}

/** Adds a turn. If a moving rule has two placements in this region, the isolate sends only the stricter one. */
export function withTurn(turns: readonly Turn[], turn: Turn): readonly Turn[] {
  if (turns.length === 0) return [turn];
  const { check } = turn.states[0].placed;
  const isTwin = (one: Turn) => one.region === turn.region && one.check.id === turn.check.id;
  const at = turns.findIndex((one) => isTwin(one) && one.states[0].placed.check === check);
  const twin = turns[at];
  if (!twin) return [...turns, turn];
  const stricter = turn.check.limit < twin.check.limit ? turn : twin;
  return turns.with(at, { ...stricter, states: [...twin.states, ...turn.states] });
}

/** Finds the next region for a check; undefined if no region is left to try. */
export type FindRegion = (
  transfers: Transfers,
  state: CheckState,
  regions: Regions,
) => RegionCandidate | undefined;

/** The next region that may count the check with its part. */
export const toCount: FindRegion = (transfers, { placed, verdicts }, regions) => {
  const near = transfers.checkAt(placed, regions[0].name);
  // The usual case: the nearest region counts the check, and no transfer has to be looked up.
  for (const region of near ? regions : transfers.candidates(placed, regions)) {
    const check = region === regions[0] ? near : transfers.checkAt(placed, region.name);
    if (!check) continue;
    const verdict = verdicts.get(region.name);
    // The region's part was smaller when the region denied the check.
    const hasMore = verdict?.outcome !== undefined && verdict.check.limit < check.limit;
    if (!verdict || hasMore) return { region, check };
    if (verdict.outcome && !placed.check.rule.spill) return undefined;
  }
  return undefined;
};

/**
 * The next region that may stand in for the owner of a check that no region may count by itself. None if no region has
 * failed, or if a region has denied the check: a region without an answer does not overrule it.
 */
export const toStandIn: FindRegion = (transfers, { placed, verdicts }, regions) => {
  if (regions.length === 1) return undefined;
  const name = transfers.ownerOf(placed);
  const owner = regions.find((region) => region.name === name);
  const answers = [...verdicts.values()];
  const hasFailed = !owner || answers.some(isFailure) || !regions.every(isClosed);
  if (!hasFailed || answers.some(({ outcome }) => outcome)) return undefined;
  // A region that was removed has no neighbours. The order of names is the same for all isolates, too.
  const order = owner?.neighbours ?? regions.map((region) => region.name).sort();
  for (const next of order) {
    const region = regions.find((candidate) => candidate.name === next);
    if (region && isClosed(region) && !verdicts.has(next))
      return { region, check: standInAt(next, placed.check) };
  }
  return undefined;
};

/**
 * The region whose part the owner of the check should get before the next region counts: the owner has denied the check
 * or has no part. Parts of idle regions help more than a single charge elsewhere.
 */
export function forPart(
  transfers: Transfers,
  { placed, verdicts }: CheckState,
  regions: Regions,
): TransferRequest | undefined {
  const owner = placed.at ?? regions[0].name;
  const part = placed.parts.get(owner);
  const hasPart = part !== undefined && isUsable(placed.check, part);
  if (hasPart && verdicts.get(owner)?.outcome === undefined) return undefined;
  const own = regions.find(({ name }) => name === owner);
  // No region could use a part that is transferred to a region that does not answer.
  if (!hasPart && !(own?.distance.ms() !== undefined && isClosed(own))) return undefined;
  const from = regions.find((region) => isClosed(region) && transfers.isMissing(placed, owner, region));
  return from && { placed, from, owner };
}

/** The least time for a near region that is asked after a far one, even if the far one has used up the time. */
const AGAIN_MS = 50;

/** The times of one call to a region. */
export interface CallTimes {
  /** The region gets this time. Not above 0: there is none left. */
  readonly givenMs: number;
  /** The region has enough time, so a timeout is its fault. */
  readonly isFair: boolean;
  /** An answer that takes longer delays the request. */
  readonly slowMs: number;
}

/** How long a region may take to count these checks. With `isFirst`, no other region has been asked. */
export function timesOf(
  region: LimiterRegion,
  turns: readonly Turn[],
  { regions, deadline }: Pick<CountRequest, 'regions' | 'deadline'>,
  isFirst: boolean,
): CallTimes {
  const isNearest = region === regions[0];
  const knownMs = isNearest ? undefined : region.distance.ms();
  const nearMs = deadline.totalMs * FAIR_PART;
  // A far region needs as much as its distance takes.
  const neededMs = knownMs === undefined ? nearMs : Math.min(knownMs * TIMEOUT_FACTOR, LONGEST_MS);
  const givenMs =
    isNearest && isFirst ? firstMs(turns, regions, deadline) : laterMs(region, turns, regions, deadline);
  // Nobody can tell whether a region of unknown distance is slow or only far.
  const isUnknown = !isNearest && knownMs === undefined;
  const slowMs = isUnknown ? deadline.totalMs : Math.max(neededMs, nearMs);
  return { givenMs, isFair: givenMs >= neededMs, slowMs };
}

/** The first call to the nearest region leaves time for another region that could count a check, or stand in. */
const firstMs = (turns: readonly Turn[], regions: Regions, deadline: Deadline): number => {
  const hasOther = turns.some(({ states: [{ verdicts }] }) =>
    regions.some((region, i) => i > 0 && !verdicts.has(region.name) && isClosed(region)),
  );
  return deadline.remainingMs() / (hasOther ? 2 : 1);
};

/**
 * A far region gets the time that its distance takes, and so does the nearest if it is asked after a far one. If the
 * nearest region did not answer, a region of unknown distance gets no more than the time that is left. A stand-in, or a
 * region that is asked after a far one, gets enough time, although a far owner may have used it up. Otherwise it would
 * seem to be gone, too, and isolates would not agree on the stand-in.
 */
const laterMs = (
  region: LimiterRegion,
  turns: readonly Turn[],
  regions: Regions,
  deadline: Deadline,
): number => {
  const [nearest] = regions;
  const isPatient = turns.every(({ states: [{ verdicts }] }) => !isUnanswered(verdicts.get(nearest.name)));
  const isAfterFar = region !== nearest && isPatient;
  const mustFit = isAfterFar || turns.some(({ check }) => isStandIn(check));
  const leastMs = mustFit ? deadline.totalMs * FAIR_PART : region === nearest ? AGAIN_MS : 0;
  return region.distance.fitMs(Math.max(leastMs, deadline.remainingMs()), isPatient);
};
