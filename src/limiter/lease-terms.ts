// What may be leased, how much of it, and for how long. docs/leases.md tells why that is exact.
import type { LeaseTraits } from '../core/counting/algorithms/algorithm.ts';
import { traitsOf } from '../core/counting/algorithms/registry.ts';
import type { Outcome } from '../core/counting/check.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import { capacityOf } from '../core/regions/shares.ts';

/** A lease is for so long at the pace of now: 200 requests a second make two calls a second. */
const WORTH_MS = 500;
/** Of a window, if what drains must be covered for so long: see unitsBelow. */
const WORTH_OF_WINDOW = 0.1;
/** Of what is left, for all isolates together: the rest is for those who ask one by one. */
const SHARE_OF_REST = 0.5;
/** At a slower pace, in that time, a lease saves too little for what it keeps from others; */
const LEAST_PACE = 10;
/** and so does a smaller lease: near the limit, requests are counted one by one. */
const LEAST_REQUESTS = 4;
/** Of what was used before: the rest may be given back by requests that are counted once more, while rules change. */
const RELIABLE = 0.9;
/** Clocks stand still while a request is worked on, and are cut to milliseconds. */
const CLOCK_MARGIN_MS = 10;

/** Of rules whose charges nobody changes later, and whose denials change nothing. */
export function leaseOf({ algorithm, rule, countDenied, blockMs, log }: RuleCheck): LeaseTraits | undefined {
  const isPlain = rule.action === 'reject' && !log && !rule.refundOnError && !rule.costFromOrigin;
  return rule.lease !== false && isPlain && !countDenied && !blockMs ? traitsOf(algorithm).lease : undefined;
}

/** Whether units that were not used can be given back: not where another lease may rely on them. */
export const isRefundable = (check: RuleCheck): boolean => leaseOf(check)?.isRefundable !== false;

/** What is known of a counter. */
export interface Pace {
  /** Of this isolate. */
  readonly unitsPerMs: number;
  /** In the region, when it was last asked. */
  readonly remaining: number;
  readonly isolates: number;
  /** By the clock of the region, about. */
  readonly nowMs: number;
}

/** Units to ask for beyond the cost; 0 for none. */
export function wantOf(check: RuleCheck, { unitsPerMs, remaining, isolates, nowMs }: Pace): number {
  const traits = leaseOf(check);
  if (!traits) return 0;
  const counting = atFullPace(check);
  const used = Math.max(0, Math.floor((capacityOf(check) - remaining) * RELIABLE));
  const below = Math.max(0, traits.unitsBelow(worthMs(check, traits), counting) - used);
  const most = Math.floor((remaining * SHARE_OF_REST) / isolates) - below;
  // What is not used by the end of a lease is lost for a while.
  const lastsMs = traits.endsAtMs(nowMs, counting, used + below) - nowMs - CLOCK_MARGIN_MS;
  const usedMs = Math.min(worthMs(check, traits), lastsMs);
  if (unitsPerMs * worthMs(check, traits) < LEAST_PACE * check.cost) return 0;
  const wanted = Math.min(Math.floor(unitsPerMs * usedMs), most);
  const units = wanted - (wanted % check.cost);
  return units >= LEAST_REQUESTS * check.cost ? units + below : 0;
}

/** Units that may be used, and for how long after the call was sent. */
export interface Term {
  readonly units: number;
  readonly lastsMs: number;
}

/** Of so many units that were charged beyond those that are used at once. */
export function termOf(
  check: RuleCheck,
  { remaining }: Outcome,
  charge: { readonly atMs: number; readonly usedNow: number; readonly granted: number },
): Term | undefined {
  const traits = leaseOf(check);
  if (!traits) return undefined;
  const { atMs, usedNow, granted } = charge;
  const usedBefore = capacityOf(check) - remaining - usedNow - granted;
  const before = Math.max(0, Math.floor(usedBefore * RELIABLE));
  const below = Math.max(0, traits.unitsBelow(worthMs(check, traits), atFullPace(check)) - before);
  const units = granted - below;
  const endsAtMs = traits.endsAtMs(atMs, atFullPace(check), before + below);
  const lastsMs = endsAtMs - atMs - CLOCK_MARGIN_MS;
  return units > 0 && lastsMs > 0 ? { units, lastsMs } : undefined;
}

function worthMs({ windowMs }: RuleCheck, { isRefundable: isPlain }: LeaseTraits): number {
  return isPlain ? WORTH_MS : Math.min(WORTH_MS, Math.ceil(windowMs * WORTH_OF_WINDOW));
}

/** A region may get the parts of others at any moment, and then drains at the pace of all. */
const atFullPace = ({ windowMs, full, extra }: RuleCheck) => ({ windowMs, limit: full.limit, extra });
