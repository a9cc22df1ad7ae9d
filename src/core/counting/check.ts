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
  /** Denied requests count, too. */
  readonly countDenied?: boolean | undefined;
  /** Once the limit is exceeded, deny everything for this long. */
  readonly blockMs?: number | undefined;
  /** A shadow rule: it is counted, but never denies. */
  readonly isShadow?: boolean | undefined;
}

export interface TakeCheck extends Check {
  /** Units to lease beyond the cost, as far as there is room. */
  readonly leaseUnits?: number | undefined;
}

/** Gives `cost` units of an earlier charge back. */
export interface RefundCheck extends Check {
  /** When the charge was made. Undefined: now, or for seats, which are found by their id. */
  readonly chargedAtMs?: number | undefined;
  /** Units of that charge that stay charged. */
  readonly keptUnits?: number | undefined;
}

/** Charges `cost` units more for an earlier charge, with or without room, up to a debt of the whole capacity. */
export interface SettleCheck extends Check {
  readonly chargedAtMs: number;
  /** Charges only so much that no more than these units are used afterwards. */
  readonly mostUnits?: number | undefined;
}

/** A region asks another one for its part of a counter. */
export interface TransferCheck extends Check {
  readonly transfer: TransferTerms;
}

export interface TransferTerms {
  /** The region that asks. */
  readonly owner: string;
  /** The owner may use the part for this long. */
  readonly termMs: number;
  /** After that, charges of the owner may still count for this long. */
  readonly holdMs: number;
  /** What the owner has charged itself with, in place of the units in this counter. */
  readonly ownerCharge?: { readonly units: number; readonly atMs: number } | undefined;
}

/** The answer to a take or a peek. */
export interface Outcome {
  /** By this check alone. */
  readonly allowed: boolean;
  /** Exactly this many more units would pass now. */
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
  /** Set if this region has transferred the counter: it counts nothing until `resetAtMs`. */
  readonly transferredTo?: PartOwner | undefined;
}

export interface PartOwner {
  readonly name: string;
  /** The owner may use this region's part for this much longer. */
  readonly usableMs: number;
}

/** The answer to a refund or a settlement: what is left after it. */
export type Balance = Pick<Outcome, 'remaining' | 'resetAtMs'>;

export interface Settlement extends Balance {
  /** Fewer than asked for if the debt would be too large, or if another region counts. */
  readonly chargedUnits: number;
}

/** Whether a seat was still held when it should be renewed. */
export type SeatStatus = 'held' | 'lost';

export type TransferReply =
  /** This region counts nothing until then. */
  | { readonly kind: 'transferred'; readonly untilMs: number }
  /** This region counts with its part itself. Asking again is of no use for that long, if nothing is charged meanwhile. */
  | { readonly kind: 'in-use'; readonly usedUnits: number; readonly retryAfterMs: number }
  /** Another region has the part, or this region wants it back. */
  | { readonly kind: 'refused'; readonly retryAfterMs: number };

/** `unchanged`: the part is not transferred, or recalled already. */
export type RecallReply = 'recalled' | 'unchanged';

/** What each operation asks about a counter, and what it answers. */
export interface Operations {
  /** Charges all counters of the checks, or none. */
  take: { readonly check: TakeCheck; readonly reply: Outcome };
  /**
   * Judges as a take would, and changes nothing. A denial starts no block and is not counted, so its wait is the one that
   * holds if nobody takes meanwhile.
   */
  peek: { readonly check: Check; readonly reply: Outcome };
  refund: { readonly check: RefundCheck; readonly reply: Balance };
  settle: { readonly check: SettleCheck; readonly reply: Settlement };
  /** Renews seats. */
  renew: { readonly check: Check; readonly reply: SeatStatus };
  /**
   * Gives this region's part of a counter to another region for a time, if this region counts nothing or the other
   * region has charged itself with all of it.
   */
  transfer: { readonly check: TransferCheck; readonly reply: TransferReply };
  /** Makes this region refuse to transfer the part again. */
  recall: { readonly check: Check; readonly reply: RecallReply };
}

export type Operation = keyof Operations;
export const OPERATIONS: readonly Operation[] = [
  'take',
  'peek',
  'refund',
  'settle',
  'renew',
  'transfer',
  'recall',
];
export type CheckOf<O extends Operation> = Operations[O]['check'];
export type ReplyOf<O extends Operation> = Operations[O]['reply'];

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

export interface Answer<Reply = Outcome> {
  /** The time by the clock of the counters. A refund or a settlement names it as the time of the charge. */
  readonly nowMs: number;
  /** One for each check. */
  readonly outcomes: readonly Reply[];
  /** The region's announcement, if the call asked for it; null if there is none, undefined if it could not be read. */
  readonly announced?: string | null | undefined;
}

/** Products of units and milliseconds stay whole numbers up to here, with room for twice the capacity. */
const LARGEST = 2 ** 52;
/** Windows and blocks of up to 34 years. */
export const LONGEST_MS = 2 ** 40;
/** The time that an empty bucket takes to fill, 557 years, so that every stored time stays far below `LATEST_MS`. */
const SLOWEST_MS = 2 ** 44;
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
export function problemOf<O extends Operation>(check: CheckOf<O>, operation: O): string | undefined {
  const { algorithm, id, limit, windowMs, cost, extra, seatId = '' } = check;
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
  if (check.blockMs && !(isWhole(check.blockMs) && check.blockMs <= LONGEST_MS))
    return 'block must be a whole number from 1 to 2^40';
  if (check.borders && !areBorders(check.borders)) return 'borders must be four times, one after the other';
  const problem = PROBLEMS[operation]?.(check as never);
  if (problem !== undefined) return problem;
  if (mostUnits !== undefined && limit > mostUnits) return `${algorithm} takes a limit of up to ${mostUnits}`;
  if (meaning === 'buckets' && extra !== undefined && extra > MAX_BUCKETS)
    return `there can be up to ${MAX_BUCKETS} buckets`;
  if (Math.max(countsUnits ? 0 : limit, extra ?? 0) * windowMs > LARGEST)
    return 'limit times windowMs must stay below 2^52';
  // A debt takes twice as long.
  if (meaning !== 'buckets' && extra !== undefined && extra * windowMs > SLOWEST_MS * limit)
    return 'an empty bucket must be full again within 2^44 ms';
  return undefined;
}

const areUnits = (name: string, units: number | undefined) =>
  units && !isWhole(units) ? `${name} must be a whole number above 0` : undefined;

const isTime = (name: string, ms: number | undefined) =>
  ms === undefined || isWhole(ms) ? undefined : `${name} must be a whole number above 0`;

/** The problems of what an operation adds to a check. */
const PROBLEMS: { readonly [O in Operation]?: (check: CheckOf<O>) => string | undefined } = {
  take: ({ leaseUnits }) => areUnits('lease', leaseUnits),
  refund: ({ keptUnits, chargedAtMs }) => areUnits('kept', keptUnits) ?? isTime('at', chargedAtMs),
  settle({ algorithm, mostUnits, chargedAtMs }) {
    if (traitsOf(algorithm).holdsSeats) return 'seats cannot be settled';
    if (chargedAtMs === undefined) return 'settle needs the time of the charge';
    return areUnits('most', mostUnits) ?? isTime('at', chargedAtMs);
  },
  renew: ({ algorithm }) => (traitsOf(algorithm).holdsSeats ? undefined : 'only seats can be renewed'),
  transfer({ transfer }) {
    const { owner = '', termMs = 0, holdMs = 0, ownerCharge } = transfer ?? {};
    if (!REGION_NAME.test(owner)) return 'transfer needs the name of a region';
    if (![termMs, holdMs].every((ms) => isWhole(ms) && ms <= SLOWEST_MS))
      return 'term and hold must be whole numbers from 1 to 2^44';
    return areUnits('charged', ownerCharge?.units) ?? isTime('at', ownerCharge?.atMs);
  },
};

/** Each key once. A call has so few keys that searching a list is faster than building a set. */
export function keysOf(checks: readonly Pick<Check, 'key'>[]): string[] {
  const [first] = checks;
  const keys = first ? [first.key] : [];
  for (const { key } of checks) if (!keys.includes(key)) keys.push(key);
  return keys;
}
