// What an isolate has counted since it last handed its sums over. It keeps a bounded number of names apart. Code that
// adds to a series looks it up once and keeps it, because building its text for each request costs more.

import {
  type Crossings,
  createCrossings,
  createDenialSums,
  createUsageSums,
  type Denial,
  type DenialFields,
  type Sums,
  type Usage,
  type UsageFields,
} from './records.ts';

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

/** Names of rules, or of routes, that one isolate keeps apart. */
const MAX_NAMES = 200;

export interface CounterSeries {
  add(amount?: number): void;
}

export interface HistogramSeries {
  observe(tookMs: number): void;
}

export interface MetricSums {
  /** The number of series with an amount to hand over. */
  readonly size: number;
  /** Callers that add often should keep the result. */
  counter(metric: MetricId, ...labels: string[]): CounterSeries;
  histogram(metric: MetricId, ...labels: string[]): HistogramSeries;
  /** A name that may be used as a label; `other` once there are too many. */
  nameOf(kind: 'rule' | 'route', name: string): string;
  /** Removes and returns at most `most` series, oldest first. */
  take(most: number): [series: string, amount: number][];
  /** Adds sums that a region has refused under their names. They count under `other`. */
  addWithoutNames(sums: readonly (readonly [series: string, amount: number])[]): void;
}

interface Sum extends CounterSeries {
  readonly series: string;
  amount: number;
}

export function createMetricSums(): MetricSums {
  const sums = new Map<string, Sum>();
  /** The sums above 0. The sum that rose above 0 first comes first. */
  let due: Sum[] = [];
  const names = { rule: new Set<string>(), route: new Set<string>() };

  const create = (series: string): Sum => ({
    series,
    amount: 0,
    add(amount = 1) {
      if (amount === 0) return;
      if (this.amount === 0) due.push(this);
      this.amount += amount;
    },
  });
  const sumOf = (series: string): Sum => {
    const sum = sums.get(series) ?? create(series);
    sums.set(series, sum);
    return sum;
  };
  const seriesOf = (metric: MetricId, labels: readonly string[]) => [metric, ...labels].join('\t');

  return {
    get size() {
      return due.length;
    },
    counter: (metric, ...labels) => sumOf(seriesOf(metric, labels)),
    histogram(metric, ...labels) {
      const { boundsMs = [] } = METRICS[metric];
      const series = seriesOf(metric, labels);
      const buckets = [...boundsMs, Number.POSITIVE_INFINITY].map((_, place) =>
        sumOf(`${series}\tb${place}`),
      );
      const sum = sumOf(`${series}\tsum`);
      return {
        observe(tookMs) {
          buckets[bucketOf(boundsMs, tookMs)]?.add();
          // Microseconds, so that sums are whole numbers.
          if (tookMs > 0) sum.add(Math.round(tookMs * 1_000));
        },
      };
    },
    nameOf(kind, name) {
      const known = names[kind];
      if (known.has(name)) return name;
      if (known.size >= MAX_NAMES) return OTHER;
      known.add(name);
      return name;
    },
    take(most) {
      const taken = due.slice(0, most).map((sum): [string, number] => [sum.series, sum.amount]);
      for (const sum of due.slice(0, most)) sum.amount = 0;
      due = due.slice(most);
      return taken;
    },
    addWithoutNames: (refused) => {
      for (const [series, amount] of refused) sumOf(withoutName(series)).add(amount);
    },
  };
}

// All that an isolate has counted and not handed over yet.

export interface Collected {
  readonly sums: MetricSums;
  readonly denials: Sums<Denial, DenialFields>;
  readonly usage: Sums<Usage, UsageFields>;
  readonly crossings: Crossings;
}

export const createCollected = (): Collected => ({
  sums: createMetricSums(),
  denials: createDenialSums(),
  usage: createUsageSums(),
  crossings: createCrossings(),
});
