// A check is one rule, one subject, one cost, as the counters see it; an outcome is the answer to it.
import { ALGORITHM_IDS, type AlgorithmId, traitsOf } from './algorithms/registry.ts';
import type { Borders } from './calendar.ts';

export interface Check {
  /** Where the counters of the subject are kept. */
  readonly key: string;
  /** Of this counter within its key: another rule, algorithm or window is another id. */
  readonly id: string;
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowMs: number;
  /** Of a calendar window, which `windowMs` is the length of. */
  readonly borders?: Borders | undefined;
  /** Burst (token-bucket, leaky-bucket, gcra) or number of buckets (sliding-window-buckets). */
  readonly extra?: number | undefined;
  /** Of a `concurrency` check: 16 letters, digits, - or _. */
  readonly seatId?: string | undefined;
  /** Units to take, to give back, or to charge afterwards. */
  readonly cost: number;
  /**
   * Units to lease beyond the cost, as far as there is room. Of a refund: units of that charge that are kept. Of
   * `settle`: units that are used afterwards at most, if that is less than the cost says. Of a `cede`: units that the home has charged itself with, for what this counter holds.
   */
  readonly want?: number | undefined;
  /** Count denied requests too. */
  readonly countDenied?: boolean | undefined;
  /** Deny everything for so long once the limit is exceeded. */
  readonly blockMs?: number | undefined;
  /** Say what it would do, but never deny. */
  readonly log?: boolean | undefined;
  /** Of a refund, of what is settled, and of a `cede` with `want`: when the charge was made. */
  readonly chargedAtMs?: number | undefined;
  /** Of a `cede`: who asks, and for how long. */
  readonly cession?: Cession | undefined;
}

/** A region asks another one for its part of a counter. */
export interface Cession {
  /** The region that asks. */
  readonly home: string;
  /** It may use the part for so long; */
  readonly termMs: number;
  /** and for so long after that, what it has charged may still count. */
  readonly holdMs: number;
}

export interface Outcome {
  /** By this check alone. For a renewal: whether the seat was still held. Of a `cede`: whether the part is ceded. */
  readonly allowed: boolean;
  /** Exactly this many more units would pass now. Of a `cede` that is refused because the counter is in use: units used. */
  readonly remaining: number;
  /** When the whole limit is free again. */
  readonly resetAtMs: number;
  /** 0 when allowed; undefined when no wait will ever help. */
  readonly retryAfterMs: number | undefined;
  /** Units leased beyond the cost. */
  readonly granted: number;
  /** Until its turn, for those that throttle. */
  readonly delayMs: number;
  /** By the clock of its own counter, if that can be another than the answer's: in a cluster, each slot has one. */
  readonly nowMs?: number | undefined;
  /**
   * This region has ceded the counter: it counts nothing until `resetAtMs`, and that region counts instead. It may use
   * the part of this region for `retryAfterMs` more.
   */
  readonly movedTo?: string | undefined;
}

/**
 * A copy with other figures. Every field is written out, here and wherever each request makes an object: V8 forgets the
 * shape of a spread when none of its objects is alive, and then throws away the machine code that was made for it.
 */
export const outcomeWith = (
  outcome: Outcome,
  { remaining = outcome.remaining, nowMs = outcome.nowMs }: Partial<Pick<Outcome, 'remaining' | 'nowMs'>>,
): Outcome => ({
  allowed: outcome.allowed,
  remaining,
  resetAtMs: outcome.resetAtMs,
  retryAfterMs: outcome.retryAfterMs,
  granted: outcome.granted,
  delayMs: outcome.delayMs,
  nowMs,
  movedTo: outcome.movedTo,
});

/**
 * `settle` charges what a request cost beyond what it was charged, once that is known: always, up to a debt of the
 * whole capacity. `renew` is for seats. `cede` gives this region's part of a counter to another region for a time, if
 * nothing is counted here, or all of it there; `reclaim` refuses to do so again.
 */
export type Operation = 'take' | 'peek' | 'refund' | 'settle' | 'renew' | 'cede' | 'reclaim';

export interface Answer {
  /** By the clock of the counters. A refund or a settlement names it as the time of the charge. */
  readonly nowMs: number;
  readonly outcomes: readonly Outcome[];
  /** What the region announces, if the call asked for it; null if nothing. Undefined if that could not be read. */
  readonly announced?: string | null | undefined;
}

/** Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity. */
const LARGEST = 2 ** 52;
/** Times fit into 6 bytes: windows of up to 34 years. */
const LONGEST_MS = 2 ** 40;
const MAX_BUCKETS = 100;
/** Nothing that could end a record of the script. */
const SEAT_ID = /^[\w-]{16}$/;
const REGION_NAME = /^[a-z0-9-]{1,32}$/;

/** The year 6429. */
const LATEST_MS = 2 ** 47;

const isWhole = (value: number) => Number.isInteger(value) && value >= 1 && value <= LARGEST;

/** The most units that an algorithm counts exactly in such a window. */
export function largestLimit(algorithm: AlgorithmId, windowMs: number): number {
  const { mostUnits = LARGEST, countsUnits } = traitsOf(algorithm);
  return countsUnits ? mostUnits : Math.min(mostUnits, Math.floor(LARGEST / windowMs));
}

const areBorders = (borders: Borders): boolean =>
  borders.length === 4 &&
  borders.every((ms, i) => isWhole(ms) && ms <= LATEST_MS && ms > (i === 0 ? 0 : (borders[i - 1] ?? ms)));

/** What makes a check unusable, in the words of the script; undefined if nothing does. */
export function problemOf(check: Check, operation: Operation = 'take'): string | undefined {
  const { algorithm, limit, windowMs, cost, extra, seatId = '', chargedAtMs } = check;
  if (!ALGORITHM_IDS.includes(algorithm)) return 'unknown algorithm';
  const { holdsSeats, mostUnits, countsUnits, extra: meaning } = traitsOf(algorithm);
  if (!isWhole(limit)) return 'limit must be a whole number above 0';
  if (!isWhole(windowMs) || windowMs > LONGEST_MS) return 'windowMs must be a whole number from 1 to 2^40';
  if (!isWhole(cost)) return 'cost must be a whole number above 0';
  if (holdsSeats) {
    if (!SEAT_ID.test(seatId)) return 'a seat id must have 16 letters, digits, - or _';
    if (check.countDenied) return `${algorithm} cannot count denied requests`;
  } else if (extra !== undefined && !isWhole(extra)) return 'burst and buckets must be whole numbers above 0';
  for (const [option, value] of [
    ['want', check.want],
    ['block', check.blockMs],
  ] as const)
    if (value && !isWhole(value)) return `${option} must be a whole number above 0`;
  if (chargedAtMs !== undefined && !isWhole(chargedAtMs)) return 'at must be a whole number above 0';
  if (check.borders && !areBorders(check.borders)) return 'borders must be four times, one after the other';
  if (operation === 'cede') {
    const { home = '', termMs = 0, holdMs = 0 } = check.cession ?? {};
    if (!REGION_NAME.test(home)) return 'to cede takes the name of a region';
    if (![termMs, holdMs].every((ms) => isWhole(ms) && ms <= LONGEST_MS))
      return 'term and hold must be whole numbers from 1 to 2^40';
  }
  if (operation === 'renew' && !holdsSeats) return 'only seats can be renewed';
  if (operation === 'settle') {
    if (holdsSeats) return 'seats cannot be settled';
    if (chargedAtMs === undefined) return 'to settle takes the time of the charge';
  }
  if (mostUnits !== undefined && limit > mostUnits) return `${algorithm} takes a limit of up to ${mostUnits}`;
  if (meaning === 'buckets' && extra !== undefined && extra > MAX_BUCKETS)
    return `there can be up to ${MAX_BUCKETS} buckets`;
  if (Math.max(countsUnits ? 0 : limit, extra ?? 0) * windowMs > LARGEST)
    return 'limit times windowMs must stay below 2^52';
  return undefined;
}

/** Each key once. A call has so few that a list is found through faster than a set is made. */
export function keysOf(checks: readonly Pick<Check, 'key'>[]): string[] {
  const keys: string[] = [];
  for (const { key } of checks) if (!keys.includes(key)) keys.push(key);
  return keys;
}
