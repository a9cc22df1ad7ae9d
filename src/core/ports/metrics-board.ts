// The port to the sums of one region: isolates add to them, and those who ask for metrics read them.

export interface MetricsBatch {
  /** Of the isolate that hands it over. */
  readonly isolateId: string;
  /** Another one for each batch of an isolate: the same batch is added once, however often it is sent. */
  readonly number: number;
  readonly sums: readonly (readonly [series: string, amount: number])[];
  readonly report: IsolateReport;
}

/** What an isolate tells of itself. */
export interface IsolateReport {
  readonly atMs: number;
  /** By region: the state of this isolate's breaker. */
  readonly breakers: Readonly<Record<string, string>>;
  /** For so long it has decided by rules that it could not confirm. */
  readonly rulesAgeMs: number;
  /** What it has charged in advance and not used; isolates of an older version do not tell. */
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
  /** The series that were refused, because the region has too many names already. */
  handOver(batch: MetricsBatch, signal: AbortSignal): Promise<readonly (readonly [string, number])[]>;
  read(signal: AbortSignal): Promise<RegionMetrics>;
}
