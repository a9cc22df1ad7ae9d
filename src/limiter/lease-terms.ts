// What may be leased, how much of it, and for how long. docs/leases.md tells why that is exact.
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { windowAt } from '../core/counting/calendar.ts';
import type { RuleCheck } from '../core/matching/plan.ts';

/** A lease is for so long at the pace of now: 200 requests a second make two calls a second. */
const WORTH_MS = 500;
/** Of what is left, for all isolates together: the rest is for those who ask one by one. */
const SHARE_OF_REST = 0.5;
/** At a slower pace, in that time, a lease saves too little for what it keeps from others. */
const LEAST_PACE = 10;
/** So does a limit that is used up sooner than this, and a lost lease would be too much of it; */
const LEAST_LIMIT_MS = 2_000;
/** and so does a smaller lease: near the limit, requests are counted one by one. */
const LEAST_REQUESTS = 2;
/** Clocks stand still while a request is worked on, and are cut to milliseconds. */
const CLOCK_MARGIN_MS = 10;

/** Of rules whose charges nobody changes later, and whose denials change nothing. */
export function isLeasable({ algorithm, rule, countDenied, blockMs, log }: RuleCheck): boolean {
  const isPlain = rule.action === 'reject' && !log && !rule.refundOnError && !rule.costFromOrigin;
  const mayLease = rule.lease && isPlain && !countDenied && !blockMs;
  return mayLease && traitsOf(algorithm).leaseCellMs !== undefined;
}

/** What is known of a counter. */
export interface Pace {
  /** Of this isolate. */
  readonly unitsPerMs: number;
  readonly unitsPerMsBefore: number;
  /** In the region, when it was last asked. */
  readonly remaining: number;
  readonly isolates: number;
  /** By the clock of the region, about. */
  readonly nowMs: number;
  /** A call to the region takes so long. */
  readonly callMs: number;
}

/** Units to ask for beyond the cost; 0 for none. */
export function wantOf(check: RuleCheck, pace: Pace): number {
  const { unitsPerMs, unitsPerMsBefore, remaining, isolates, nowMs, callMs } = pace;
  const steadily = Math.min(unitsPerMs, unitsPerMsBefore);
  const isBusy = steadily * WORTH_MS >= LEAST_PACE * check.cost;
  if (!isBusy || !isLeasable(check) || check.full.limit < steadily * isolates * LEAST_LIMIT_MS) return 0;
  // Requests that come while the lease is on its way must find something, or they would be denied for it.
  const spare = remaining - unitsPerMs * isolates * callMs;
  const most = Math.floor(Math.min((remaining * SHARE_OF_REST) / isolates, spare));
  // What is not used by the end of a lease is lost for a while.
  const usedMs = Math.min(WORTH_MS, lastsMs(check, nowMs));
  const wanted = Math.min(Math.floor(unitsPerMs * usedMs), most);
  const units = wanted - (wanted % check.cost);
  return units >= LEAST_REQUESTS * check.cost ? units : 0;
}

/** How long units may be used that are charged at that moment, by the clock of the region: until their cell ends. */
export function lastsMs(check: RuleCheck, atMs: number): number {
  if (check.borders) return windowAt(atMs, check).endMs - atMs - CLOCK_MARGIN_MS;
  const { limit, windowMs, borders, extra } = check;
  const cellMs = traitsOf(check.algorithm).leaseCellMs?.({ limit, windowMs, borders, extra }) ?? 0;
  return cellMs > 0 ? cellMs - (atMs % cellMs) - CLOCK_MARGIN_MS : 0;
}
