// What a bench is: a file bench/NAME.ts that exports `run`.

export interface BenchOptions {
  /** Tells whoever waits how far it is. */
  say(line: string): void;
}

export interface Table {
  readonly title: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
  /** What one must know to read it. */
  readonly notes?: readonly string[];
}

export interface BenchResult {
  readonly tables: readonly Table[];
  readonly json: Readonly<Record<string, unknown>>;
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>;
