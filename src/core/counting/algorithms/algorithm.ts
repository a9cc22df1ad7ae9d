// The interface of all algorithms. Each is the exact twin of the Lua file of the same name: same state, same
// whole-number arithmetic, same answers. No algorithm changes a state in place.
import type { Borders } from '../calendar.ts';
import type { AlgorithmId } from './registry.ts';

export interface Params {
  readonly limit: number;
  readonly windowMs: number;
  /** For calendar windows. Undefined: windows are aligned to the epoch. */
  readonly borders?: Borders | undefined;
  /** Burst or number of buckets; undefined for the default. */
  readonly extra: number | undefined;
  /** For algorithms that hold seats; '' for all others. */
  readonly seatId: string;
}

/** What the rest of Weir knows about an algorithm. No other code compares algorithm names. */
export interface Traits {
  /** Names the algorithm in calls and in stored counters. No other algorithm may ever get it; m and n are taken. */
  readonly letter: string;
  /** The meaning of `extra`, if it has one. */
  readonly extra?: 'burst' | 'buckets';
  /** Units are held as seats until they are given back. A seat can be renewed, but not settled. */
  readonly holdsSeats?: true;
  /** It computes how long a request waits for its turn, so rules may throttle with it. */
  readonly hasQueue?: true;
  /** It remembers every unit. So its limit is bounded, and its state has a key of its own. */
  readonly mostUnits?: number;
  /** Its windows may be those of a calendar. */
  readonly hasCalendar?: true;
  /** It never multiplies units by milliseconds, so its limit may be large with any window. */
  readonly countsUnits?: true;
  /** At the limit it leaves a unit unused in each window. If the limit is split, each part leaves a unit unused. */
  readonly roundsEachPart?: true;
  /**
   * Replaces this algorithm while an isolate counts alone, because its own state could use up the memory. `strict`
   * never admits more, `lenient` never denies more. Undefined: nothing replaces it.
   */
  readonly localTwin?: { readonly strict: LocalTwin; readonly lenient: LocalTwin };
  /** The longest time for which a charge counts. */
  chargeLastsMs(counting: Counting): number;
  /**
   * The length of a cell of time in which all units count alike. An isolate may charge units now and use them until the
   * cell ends (docs/leases.md). Undefined: its units cannot be leased.
   */
  leaseCellMs?(counting: Counting): number;
}

interface LocalTwin {
  readonly algorithm: AlgorithmId;
  readonly extra: number | undefined;
}

type Counting = Pick<Params, 'limit' | 'windowMs' | 'borders' | 'extra'>;

export interface Reading<S> {
  /** The current state, without expired units. */
  readonly state: S;
  /** Units that fit now; negative if counted denials have overdrawn the counter. */
  readonly room: number;
  /** The most it can ever hold. */
  readonly capacity: number;
  /** Wait until everything before this request has left, for algorithms with a queue. */
  readonly delayMs: number;
}

/** An earlier charge that a refund or a settlement changes. */
export interface Amendment {
  readonly chargedAtMs: number;
  /** Units of that charge that a refund does not give back. */
  readonly keptUnits: number;
}

export interface ChargedState<S> {
  readonly state: S;
  /** When the whole limit is free again, and the store may forget the state. */
  readonly resetAtMs: number;
}

export interface Algorithm<S> {
  readonly traits: Traits;
  /** Reads the state at `nowMs`. Undefined stands for a subject without a state. */
  advance(state: S | undefined, nowMs: number, params: Params): Reading<S>;
  /** How long until `cost` fits. Called only if the cost does not fit now but can fit later. */
  waitMs(state: S, nowMs: number, params: Params, cost: number): number;
  /**
   * Moves the counter. With an amendment it changes that charge (a refund or a settlement), and only if the window of
   * that moment is still kept.
   */
  charge(state: S, units: number, nowMs: number, params: Params, amendment?: Amendment): ChargedState<S>;
  /**
   * Reads the state from the numbers of its record, as the script stores them. Only algorithms have it whose plain takes
   * the script answers with the text that it has read (lua/counters/take.lua).
   */
  parse?(record: readonly number[], params: Params): S;
  /** The units of a seat. Only algorithms that hold seats have it. */
  held?(state: S, seatId: string): number;
}

/** Exact for whole numbers up to 2^53, where a division and Math.floor would round. */
export const floorDivide = (a: number, b: number): number => (a - (a % b)) / b;
export const ceilDivide = (a: number, b: number): number => floorDivide(a, b) + (a % b > 0 ? 1 : 0);
