// Which limits may be leased, how many units, and for how long. docs/leases.md explains why that is exact.

import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { windowAt } from '../core/counting/calendar.ts';
import type { RuleCheck } from '../core/matching/plan.ts';

/** Upstash bills a call as four commands. Shared by 100 requests, it costs each of them 0.04 of a command. */
const WORTH_REQUESTS = 100;
/** A fast isolate leases for this long instead, so that it makes two calls a second at any pace. */
const SHORTEST_MS = 500;
/**
 * A slow isolate leases for at most this long, so for fewer requests. Meanwhile, other isolates cannot use its units
 * and do not see how many it has used.
 */
const LONGEST_MS = 5_000;
/** Requests a second. At a slower pace, a lease saves too little for the units it keeps from others. */
const LEAST_PACE = 5;
/** Requests. A smaller limit costs few calls, and a caller that moves to another isolate could not use what is left. */
const LEAST_LIMIT = 100;
/** A lease is at most this part of the limit, because it is lost if the isolate ends. */
const PART_OF_LIMIT = 1 / 8;
/** A lease must be used in this part of the time until the window ends, so that a slower pace leaves little unused. */
const PART_OF_WINDOW = 0.5;
/** A smaller lease saves nothing. Near the limit, requests are counted one by one. */
const LEAST_REQUESTS = 2;
/** The clock of an isolate stands still while the isolate computes, and it shows whole milliseconds. */
const CLOCK_MARGIN_MS = 10;

/** Weir leases only rules whose charges never change later, and whose denials change nothing. */
export function isLeasable({ algorithm, rule, countDenied, blockMs, isShadow }: RuleCheck): boolean {
  const isPlain = rule.action === 'reject' && !isShadow && !rule.refundOnError && !rule.costFromOrigin;
  const mayLease = rule.lease && isPlain && !countDenied && !blockMs;
  return mayLease && traitsOf(algorithm).leaseCellMs !== undefined;
}

/** What the isolate knows of a counter. */
export interface LeasePace {
  /** The pace of this isolate in the last measurement, and in the one before. */
  readonly unitsPerMs: number;
  readonly unitsPerMsBefore: number;
  /** What is left in the region, as far as this isolate knows. */
  readonly remaining: number;
  /** How many isolates use the counter, if all do so at the pace of this one. */
  readonly isolates: number;
  /** The time by the clock of the region, roughly. */
  readonly nowMs: number;
  /** How long a call to the region takes. */
  readonly callMs: number;
}

/** Units to ask for beyond the cost; 0 for none. */
export function wantOf(check: RuleCheck, pace: LeasePace): number {
  const { remaining, isolates, nowMs, callMs } = pace;
  // A burst must not count as pace, so both measurements must be fast. Their mean is nearer to the truth than either.
  const isBusy = Math.min(pace.unitsPerMs, pace.unitsPerMsBefore) * 1_000 >= LEAST_PACE * check.cost;
  const unitsPerMs = (pace.unitsPerMs + pace.unitsPerMsBefore) / 2;
  if (!isBusy || !isLeasable(check) || check.full.limit < LEAST_LIMIT * check.cost) return 0;
  // Requests that arrive while the lease call is in flight must still find units, or the lease would deny them.
  const spare = remaining - unitsPerMs * isolates * callMs;
  const usedMs = Math.min(worthMs(check, unitsPerMs), lastsMs(check, nowMs) * PART_OF_WINDOW);
  const most = Math.min(check.full.limit * PART_OF_LIMIT, remaining / isolates, spare);
  const wanted = Math.floor(Math.min(unitsPerMs * usedMs, most));
  const units = wanted - (wanted % check.cost);
  return units >= LEAST_REQUESTS * check.cost ? units : 0;
}

const worthMs = ({ cost }: RuleCheck, unitsPerMs: number): number =>
  Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (WORTH_REQUESTS * cost) / unitsPerMs));

/** How long units charged at that moment may be used: until their cell ends, by the clock of the region. */
export function lastsMs(check: RuleCheck, atMs: number): number {
  if (check.borders) return windowAt(atMs, check).endMs - atMs - CLOCK_MARGIN_MS;
  const { limit, windowMs, borders, extra } = check;
  const cellMs = traitsOf(check.algorithm).leaseCellMs?.({ limit, windowMs, borders, extra }) ?? 0;
  return cellMs > 0 ? cellMs - (atMs % cellMs) - CLOCK_MARGIN_MS : 0;
}
