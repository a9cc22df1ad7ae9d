// A bench is a file bench/NAME.ts that exports `run`, `measures` and `keys`.
import type { WeirParts } from '../../local/weir.ts';

export interface BenchOptions {
  /** Reports progress to the person who waits. */
  say(line: string): void;
  /**
   * How many of something to do: `count`, or in the short form a small part of it, but at least `least`. Every bench
   * sizes its work with it, so the short form needs no code of its own.
   */
  scaled(count: number, least?: number): number;
  /** Parts that exist already, so that the bench need not make them. */
  readonly parts: WeirParts;
}

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
  /** What a reader must know. */
  readonly notes?: readonly string[];
}

export interface BenchResult {
  readonly tables: readonly Table[];
  readonly json: Readonly<Record<string, unknown>>;
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>;

export interface BenchModule {
  readonly run: Bench;
  /** One line for --help. */
  readonly measures: string;
  /**
   * Paths of figures in the JSON (`p50.oneRule`) that docs and issues name. `npm test` runs the short form and looks
   * for each of them. A bench that sends requests also reports how many were not counted (`uncounted`) and why
   * (`uncountedReasons`, a record of numbers).
   */
  readonly keys: readonly string[];
}
