// The port to the metric sums of one region. Isolates add to them, and the metrics route reads them.

export interface MetricsBatch {
  /** The isolate that hands the batch over. */
  readonly isolateId: string;
  /** Each batch of an isolate has its own number. A batch is added once, however often it is sent. */
  readonly number: number;
  readonly sums: readonly (readonly [series: string, amount: number])[];
  readonly report: IsolateReport;
}

/** The report of an isolate about itself. */
export interface IsolateReport {
  readonly atMs: number;
  /** By region: the state of this isolate's breaker. */
  readonly breakers: Readonly<Record<string, string>>;
  /** How long the isolate has used rules that it could not confirm; 0 if they are confirmed. */
  readonly rulesAgeMs: number;
  /** What it has leased and not used. Isolates of an older version do not report it. */
  readonly leased?: { readonly counters: number; readonly units: number } | undefined;
}

export interface RegionMetrics {
  /** By series. */
  readonly sums: ReadonlyMap<string, number>;
  /** By isolate. */
  readonly reports: ReadonlyMap<string, IsolateReport>;
  readonly isolateCount: number;
  /** The announcement; undefined if there is none. */
  readonly announced: string | undefined;
}

export interface MetricsBoard {
  /** Returns the series that the region refused, because it has too many names already. */
  handOver(batch: MetricsBatch, signal: AbortSignal): Promise<readonly (readonly [string, number])[]>;
  read(signal: AbortSignal): Promise<RegionMetrics>;
}
