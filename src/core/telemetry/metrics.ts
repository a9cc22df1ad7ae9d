// What Weir counts, and the names of the series. A series is one line of text: the metric, its labels in their order,
// and for a histogram the bucket. Tabs separate them, because no name of a rule or route contains one.

export interface Metric {
  readonly labels: readonly string[];
  /** The position of the label that people name (a rule, a route). A bounded number of these names is kept apart. */
  readonly named?: number;
  /** Of a histogram: the upper bounds of its buckets. */
  readonly boundsMs?: readonly number[];
}

const DECISION_BOUNDS_MS = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000];
const ORIGIN_BOUNDS_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000];
const LAG_BOUNDS_MS = [1_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

const metrics = {
  requests: { labels: ['region', 'route', 'result'], named: 1 },
  checks: { labels: ['rule', 'result'], named: 0 },
  checkCalls: { labels: ['region', 'result'] },
  decision: { labels: [], boundsMs: DECISION_BOUNDS_MS },
  redis: { labels: ['region'], boundsMs: DECISION_BOUNDS_MS },
  redisErrors: { labels: ['region', 'reason'] },
  fallback: { labels: ['step', 'reason'] },
  origin: { labels: ['route'], named: 0, boundsMs: ORIGIN_BOUNDS_MS },
  originResponses: { labels: ['route', 'class'], named: 0 },
  billed: { labels: ['region'] },
  denialsHanded: { labels: [] },
  denialsWritten: { labels: [] },
  recordsLag: { labels: [], boundsMs: LAG_BOUNDS_MS },
  deadLetters: { labels: [] },
  webhook: { labels: ['result'] },
  batchesLost: { labels: [] },
} satisfies Record<string, Metric>;

export type MetricId = keyof typeof metrics;
export const METRICS: Readonly<Record<MetricId, Metric>> = metrics;
export const METRIC_IDS = Object.keys(metrics) as MetricId[];

/** The label for names beyond the number that is kept apart. */
export const OTHER = 'other';

export const isMetricId = (text: string): text is MetricId => Object.hasOwn(metrics, text);

/** The index of the bucket that a time falls into. */
export function bucketOf(boundsMs: readonly number[], tookMs: number): number {
  let place = 0;
  while (place < boundsMs.length && tookMs > (boundsMs[place] ?? 0)) place += 1;
  return place;
}

/** The same series with `other` in the place of the name. */
export function withoutName(series: string): string {
  const [id = '', ...values] = series.split('\t');
  const { named } = isMetricId(id) ? METRICS[id] : { named: undefined };
  return [id, ...values.map((value, place) => (place === named ? OTHER : value))].join('\t');
}

export const isNamed = (series: string): boolean => withoutName(series) !== series;
