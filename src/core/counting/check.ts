// A check is one rule for one subject at one cost, as the counters see it. An outcome is the answer to a check.
import { ALGORITHM_IDS, type AlgorithmId, traitsOf } from './algorithms/registry.ts';
import type { Borders } from './calendar.ts';

export interface Check {
  /** The Redis key with the counters of the subject. */
  readonly key: string;
  /** The id of the counter within its key. Another rule, algorithm or window has another id. */
  readonly id: string;
  readonly algorithm: AlgorithmId;
  readonly limit: number;
  readonly windowMs: number;
  /** The borders of a calendar window; `windowMs` is its length. */
  readonly borders?: Borders | undefined;
  /** Burst (token-bucket, leaky-bucket, gcra) or number of buckets (sliding-window-buckets). */
  readonly extra?: number | undefined;
  /** For `concurrency`: 16 letters, digits, - or _. */
  readonly seatId?: string | undefined;
  /** Units to take, to give back, or to charge afterwards. */
  readonly cost: number;
  /**
   * For a take: units to lease beyond the cost, as far as there is room. For a refund: units of that charge that stay
   * charged. For `settle`: the most units that may be used afterwards. For `transfer`: units that the owner has charged
   * itself with, in place of this counter's.
   */
  readonly want?: number | undefined;
  /** Denied requests count, too. */
  readonly countDenied?: boolean | undefined;
  /** Once the limit is exceeded, deny everything for this long. */
  readonly blockMs?: number | undefined;
  /** A shadow rule: it is counted, but never denies. */
  readonly isShadow?: boolean | undefined;
  /** For a refund, for `settle`, and for `transfer` with `want`: when the charge was made. */
  readonly chargedAtMs?: number | undefined;
  /** For `transfer`: which region asks, and for how long. */
  readonly transfer?: TransferTerms | undefined;
}

/** A region asks another one for its part of a counter. */
export interface TransferTerms {
  /** The region that asks. */
  readonly owner: string;
  /** The owner may use the part for this long. */
  readonly termMs: number;
  /** After that, charges of the owner may still count for this long. */
  readonly holdMs: number;
}

export interface Outcome {
  /** By this check alone. For `renew`: whether the seat was still held. For `transfer`: whether the part is transferred. */
  readonly allowed: boolean;
  /**
   * Exactly this many more units would pass now. For a `transfer` refused because the counter is in use: the units used.
   */
  readonly remaining: number;
  /** When the whole limit is free again. */
  readonly resetAtMs: number;
  /** 0 when allowed; undefined when no wait will ever help. */
  readonly retryAfterMs: number | undefined;
  /** Units leased beyond the cost. */
  readonly granted: number;
  /** Wait until the request's turn, for rules that throttle. */
  readonly delayMs: number;
  /** The time by the clock of this counter, if it can differ from the answer's: in a cluster each slot has its own. */
  readonly nowMs?: number | undefined;
  /**
   * The owner that this region has transferred the counter to. This region counts nothing until `resetAtMs`. The owner may use
   * this region's part for `retryAfterMs` more.
   */
  readonly transferredTo?: string | undefined;
}

/**
 * A copy with other figures. Every field is written out, here and wherever each request makes an object. V8 forgets the
 * shape of a spread object when no object has that shape, and drops all machine code that it has compiled for it.
 */
export const outcomeWith = (
  outcome: Outcome,
  {
    remaining = outcome.remaining,
    resetAtMs = outcome.resetAtMs,
    nowMs = outcome.nowMs,
  }: Partial<Pick<Outcome, 'remaining' | 'resetAtMs' | 'nowMs'>>,
): Outcome => ({
  allowed: outcome.allowed,
  remaining,
  resetAtMs,
  retryAfterMs: outcome.retryAfterMs,
  granted: outcome.granted,
  delayMs: outcome.delayMs,
  nowMs,
  transferredTo: outcome.transferredTo,
});

/**
 * `settle` charges the difference to the real cost, with or without room, up to a debt of the whole capacity. `renew`
 * renews seats. `transfer` gives this region's part of a counter to another region for a time, if this region counts
 * nothing or the other region has charged itself with all of it. `recall` makes this region refuse to transfer the part
 * again.
 */
export type Operation = 'take' | 'peek' | 'refund' | 'settle' | 'renew' | 'transfer' | 'recall';

export interface Answer {
  /** The time by the clock of the counters. A refund or a settlement names it as the time of the charge. */
  readonly nowMs: number;
  readonly outcomes: readonly Outcome[];
  /** The region's announcement, if the call asked for it; null if there is none, undefined if it could not be read. */
  readonly announced?: string | null | undefined;
}

/** Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity. */
const LARGEST = 2 ** 52;
/** Times fit into 6 bytes: windows of up to 34 years. */
const LONGEST_MS = 2 ** 40;
const MAX_BUCKETS = 100;
/** No character that could end a record of the script, or a name in it. */
const COUNTER_ID = /^[\w-]+$/;
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

/** The problem of a check, as the message of the script; undefined if the check is valid. */
export function problemOf(check: Check, operation: Operation = 'take'): string | undefined {
  const { algorithm, id, limit, windowMs, cost, extra, seatId = '', chargedAtMs } = check;
  if (!ALGORITHM_IDS.includes(algorithm)) return 'unknown algorithm';
  if (!COUNTER_ID.test(id)) return 'an id must have letters, digits, - or _';
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
  if (operation === 'transfer') {
    const { owner = '', termMs = 0, holdMs = 0 } = check.transfer ?? {};
    if (!REGION_NAME.test(owner)) return 'transfer needs the name of a region';
    if (![termMs, holdMs].every((ms) => isWhole(ms) && ms <= LONGEST_MS))
      return 'term and hold must be whole numbers from 1 to 2^40';
  }
  if (operation === 'renew' && !holdsSeats) return 'only seats can be renewed';
  if (operation === 'settle') {
    if (holdsSeats) return 'seats cannot be settled';
    if (chargedAtMs === undefined) return 'settle needs the time of the charge';
  }
  if (mostUnits !== undefined && limit > mostUnits) return `${algorithm} takes a limit of up to ${mostUnits}`;
  if (meaning === 'buckets' && extra !== undefined && extra > MAX_BUCKETS)
    return `there can be up to ${MAX_BUCKETS} buckets`;
  if (Math.max(countsUnits ? 0 : limit, extra ?? 0) * windowMs > LARGEST)
    return 'limit times windowMs must stay below 2^52';
  return undefined;
}

/** Each key once. A call has so few keys that searching a list is faster than building a set. */
export function keysOf(checks: readonly Pick<Check, 'key'>[]): string[] {
  const [first] = checks;
  const keys = first ? [first.key] : [];
  for (const { key } of checks) if (!keys.includes(key)) keys.push(key);
  return keys;
}
