// What every algorithm can do. Each is the exact twin of the Lua module of the same name: same state, same
// whole-number arithmetic, same answers. States are never changed in place.
import type { Borders } from '../calendar.ts';

export interface Params {
  readonly limit: number;
  readonly windowMs: number;
  /** Of a calendar; undefined: windows are aligned to the epoch. */
  readonly borders?: Borders | undefined;
  /** Burst or number of buckets; undefined for the default. */
  readonly extra: number | undefined;
  /** Of a `concurrency` check; '' elsewhere. */
  readonly seatId: string;
  /** Of a refund: units of the same charge that are not given back. */
  readonly kept: number;
}

/** What the rest of Weir has to know of an algorithm: nobody else asks for its name. */
export interface Traits {
  /** What `extra` is, if anything. */
  readonly extra?: 'burst' | 'buckets';
  /** Units are held as seats until they are given back. A seat can be renewed, but not settled. */
  readonly holdsSeats?: true;
  /** It tells how long a request waits for its turn: rules may throttle by it. */
  readonly hasQueue?: true;
  /** It remembers every unit: so its limit is bounded, and its state has a key of its own. */
  readonly mostUnits?: number;
  /** Its windows may be those of a calendar. */
  readonly hasCalendar?: true;
  /** It never multiplies units by milliseconds: its limit may be large, however long its window is. */
  readonly countsUnits?: true;
  /** At the limit it leaves a unit unused in each window: so does each part of a limit that is split. */
  readonly roundsEachPart?: true;
  /** The longest time for which a charge counts. */
  chargeLastsMs(counting: Counting): number;
  /**
   * Time is cut into cells of so many milliseconds, and all units of a cell count alike: an isolate may charge units now
   * and use them until the cell ends (docs/leases.md). Undefined: its units cannot be leased.
   */
  leaseCellMs?(counting: Counting): number;
}

type Counting = Pick<Params, 'limit' | 'windowMs' | 'borders' | 'extra'>;

export interface Reading<S> {
  /** As of now: what has expired is gone. */
  readonly state: S;
  /** Units that fit now; negative if denied requests are counted and have overdrawn it. */
  readonly room: number;
  /** The most it can ever hold. */
  readonly capacity: number;
  /** Time until all before it have left, where that has a meaning. */
  readonly delayMs: number;
}

export interface Charged<S> {
  readonly state: S;
  /** When the whole limit is free again: from then on the state is as good as none. */
  readonly resetAtMs: number;
}

export interface Algorithm<S> {
  readonly traits: Traits;
  /** The state as of `nowMs`; undefined stands for a subject that was never seen. */
  advance(state: S | undefined, nowMs: number, params: Params): Reading<S>;
  /** How long until `cost` fits. Asked only if it does not now, and if it ever can. */
  waitMs(state: S, nowMs: number, params: Params, cost: number): number;
  /**
   * Moves the counter. If told when a charge was made, it changes that one (gives back, or charges what was missing):
   * only if the window of that moment is still there, and only that one.
   */
  charge(state: S, units: number, chargedAtMs: number | undefined, nowMs: number, params: Params): Charged<S>;
}

/** Exact for whole numbers up to 2^53, where a division and Math.floor would round. */
export const floorDivide = (a: number, b: number): number => (a - (a % b)) / b;
export const ceilDivide = (a: number, b: number): number => floorDivide(a, b) + (a % b > 0 ? 1 : 0);

/** Units of a seat, for `concurrency`; nothing else has any. */
export interface Holder<S> {
  held(state: S, seatId: string): number;
}

/**
 * Time does not go back for a level: it stands still until the clock has caught up. If the clock went back by
 * more than a window, it goes on from there instead.
 */
export function notBefore(atMs: number, nowMs: number, windowMs: number): number {
  return atMs - nowMs > windowMs ? nowMs : Math.max(atMs, nowMs);
}
