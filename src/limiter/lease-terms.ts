// Which limits may be leased, how many units, and for how long. docs/leases.md tells why that is exact.
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import { windowAt } from '../core/counting/calendar.ts';
import type { RuleCheck } from '../core/matching/plan.ts';

/** A lease lasts this long at the current pace, so 200 requests a second make two calls a second. */
const WORTH_MS = 500;
/** The part of the rest that all isolates together may lease. The other half is for requests counted one by one. */
const SHARE_OF_REST = 0.5;
/** Requests in WORTH_MS. At a slower pace, a lease saves too little for the units it keeps from others. */
const LEAST_PACE = 10;
/** A limit that lasts for less than this is not leased: a lost lease would be too much of it. */
const LEAST_LIMIT_MS = 2_000;
/** A smaller lease saves nothing. Near the limit, requests are counted one by one. */
const LEAST_REQUESTS = 2;
/** Clocks stand still while a request is worked on, and are cut to milliseconds. */
const CLOCK_MARGIN_MS = 10;

/** Only rules whose charges never change later, and whose denials change nothing. */
export function isLeasable({ algorithm, rule, countDenied, blockMs, log }: RuleCheck): boolean {
  const isPlain = rule.action === 'reject' && !log && !rule.refundOnError && !rule.costFromOrigin;
  const mayLease = rule.lease && isPlain && !countDenied && !blockMs;
  return mayLease && traitsOf(algorithm).leaseCellMs !== undefined;
}

/** What the isolate knows of a counter. */
export interface Pace {
  /** The pace of this isolate. */
  readonly unitsPerMs: number;
  readonly unitsPerMsBefore: number;
  /** What the region last said is left there. */
  readonly remaining: number;
  readonly isolates: number;
  /** The time by the clock of the region, roughly. */
  readonly nowMs: number;
  /** How long a call to the region takes. */
  readonly callMs: number;
}

/** Units to ask for beyond the cost; 0 for none. */
export function wantOf(check: RuleCheck, pace: Pace): number {
  const { unitsPerMs, unitsPerMsBefore, remaining, isolates, nowMs, callMs } = pace;
  const steadily = Math.min(unitsPerMs, unitsPerMsBefore);
  const isBusy = steadily * WORTH_MS >= LEAST_PACE * check.cost;
  if (!isBusy || !isLeasable(check) || check.full.limit < steadily * isolates * LEAST_LIMIT_MS) return 0;
  // Requests that arrive while the lease call is in flight must still find units, or the lease would deny them.
  const spare = remaining - unitsPerMs * isolates * callMs;
  const most = Math.floor(Math.min((remaining * SHARE_OF_REST) / isolates, spare));
  // Units that are not used by the end of the lease are lost for a while.
  const usedMs = Math.min(WORTH_MS, lastsMs(check, nowMs));
  const wanted = Math.min(Math.floor(unitsPerMs * usedMs), most);
  const units = wanted - (wanted % check.cost);
  return units >= LEAST_REQUESTS * check.cost ? units : 0;
}

/** How long units charged at that moment may be used: until their cell ends, by the clock of the region. */
export function lastsMs(check: RuleCheck, atMs: number): number {
  if (check.borders) return windowAt(atMs, check).endMs - atMs - CLOCK_MARGIN_MS;
  const { limit, windowMs, borders, extra } = check;
  const cellMs = traitsOf(check.algorithm).leaseCellMs?.({ limit, windowMs, borders, extra }) ?? 0;
  return cellMs > 0 ? cellMs - (atMs % cellMs) - CLOCK_MARGIN_MS : 0;
}
