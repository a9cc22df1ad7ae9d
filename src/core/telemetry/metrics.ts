// What an isolate has counted since its last flush. It keeps a bounded number of names apart.

import {
  type Crossings,
  createCrossings,
  createDenialSums,
  createDeniedRequests,
  createUsageSums,
  type DenialSums,
  type DeniedRequests,
  type UsageSums,
} from './records.ts';

// What Weir counts, and the names of the series. A series is one line of text: the metric, its labels in their order,
// and for a histogram the bucket. Tabs separate them, because no name of a rule or route contains one.

export interface Metric {
  readonly labels: readonly string[];
  /** Of a histogram: the upper bounds of its buckets. */
  readonly boundsMs?: readonly number[];
}

const DECISION_BOUNDS_MS = [0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000];
const ORIGIN_BOUNDS_MS = [5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000];
const LAG_BOUNDS_MS = [1_000, 10_000, 30_000, 60_000, 300_000, 900_000, 3_600_000];

/** The public names follow from these: `redisErrors` is `weir_redis_errors_total`, and a histogram ends in `_seconds`. */
const metrics = {
  requests: { labels: ['region', 'route', 'result'] },
  checks: { labels: ['rule', 'result'] },
  checkCalls: { labels: ['region', 'result'] },
  decision: { labels: [], boundsMs: DECISION_BOUNDS_MS },
  redis: { labels: ['region'], boundsMs: DECISION_BOUNDS_MS },
  redisErrors: { labels: ['region', 'reason'] },
  fallback: { labels: ['step', 'reason'] },
  origin: { labels: ['route'], boundsMs: ORIGIN_BOUNDS_MS },
  originResponses: { labels: ['route', 'class'] },
  billedCommands: { labels: ['region'] },
  denialsFlushed: { labels: [] },
  denialsWritten: { labels: [] },
  recordsLag: { labels: [], boundsMs: LAG_BOUNDS_MS },
  deadLetters: { labels: [] },
  webhookMessages: { labels: ['result'] },
  metricsLost: { labels: [] },
} satisfies Record<string, Metric>;

export type MetricId = keyof typeof metrics;
export const METRICS: Readonly<Record<MetricId, Metric>> = metrics;

/** The label for names beyond the number that is kept apart. */
export const OTHER = 'other';

export const isMetricId = (text: string): text is MetricId => Object.hasOwn(metrics, text);

/** People choose the values of these labels. A bounded number of them is kept apart. */
const isNameOf = (label: string | undefined): label is 'rule' | 'route' =>
  label === 'rule' || label === 'route';

/** The same series with `other` in the place of the name. */
export function withoutName(series: string): string {
  const [id = '', ...values] = series.split('\t');
  const labels = isMetricId(id) ? METRICS[id].labels : [];
  return [id, ...values.map((value, place) => (isNameOf(labels[place]) ? OTHER : value))].join('\t');
}

export const isNamed = (series: string): boolean => withoutName(series) !== series;

/** Names of rules, or of routes, that one isolate keeps apart. */
const MAX_NAMES = 200;

export interface MetricSeries {
  /** Adds to a counter; or counts a time, in milliseconds, in a histogram. */
  add(amount?: number): void;
}

export interface MetricSums {
  /** The number of series with an amount to flush. */
  readonly size: number;
  series(metric: MetricId, ...labels: string[]): MetricSeries;
  /** Removes and returns at most `most` series, oldest first. */
  take(most: number): [series: string, amount: number][];
  /** Adds sums that a region has refused under their names. They count under `other`. */
  addWithoutNames(sums: readonly (readonly [series: string, amount: number])[]): void;
}

interface Sum extends MetricSeries {
  readonly series: string;
  amount: number;
}

export function createMetricSums(): MetricSums {
  const sums = new Map<string, Sum>();
  /** The sums above 0. The sum that rose above 0 first comes first. */
  let due: Sum[] = [];

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
  const seriesOf = (series: string, { boundsMs }: Metric): MetricSeries => {
    if (!boundsMs) return sumOf(series);
    const buckets = [...boundsMs, Number.POSITIVE_INFINITY].map((_, place) => sumOf(`${series}\tb${place}`));
    const sum = sumOf(`${series}\tsum`);
    return {
      add(tookMs = 0) {
        let place = 0;
        while (place < boundsMs.length && tookMs > (boundsMs[place] ?? 0)) place += 1;
        buckets[place]?.add();
        // Microseconds, so that sums are whole numbers.
        if (tookMs > 0) sum.add(Math.round(tookMs * 1_000));
      },
    };
  };
  const find = createTree(seriesOf);

  return {
    get size() {
      return due.length;
    },
    series: (metric, ...labels) => find(metric, labels),
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

interface Branch {
  readonly text: string;
  readonly branches: Map<string, Branch>;
  series: MetricSeries | undefined;
}

/** Finds a series by its labels, step by step: building its text for each request would cost more. */
function createTree(create: (text: string, metric: Metric) => MetricSeries) {
  const names = { rule: new Set<string>(), route: new Set<string>() };
  const branchAt = (text: string): Branch => ({ text, branches: new Map(), series: undefined });
  const root = branchAt('');

  const boundedName = (label: string | undefined, value: string): string => {
    if (!isNameOf(label) || names[label].has(value)) return value;
    if (names[label].size >= MAX_NAMES) return OTHER;
    names[label].add(value);
    return value;
  };
  const grow = ({ text, branches }: Branch, value: string): Branch => {
    const branch = branches.get(value) ?? branchAt(text === '' ? value : `${text}\t${value}`);
    branches.set(value, branch);
    return branch;
  };

  return (id: MetricId, values: readonly string[]): MetricSeries => {
    let branch = root.branches.get(id) ?? grow(root, id);
    for (let i = 0; i < values.length; i += 1) {
      const value = values[i] ?? '';
      branch = branch.branches.get(value) ?? grow(branch, boundedName(METRICS[id].labels[i], value));
    }
    branch.series ??= create(branch.text, METRICS[id]);
    return branch.series;
  };
}

// All that an isolate has counted since its last flush.

export interface TelemetrySums {
  readonly sums: MetricSums;
  readonly denials: DenialSums;
  readonly usage: UsageSums;
  readonly crossings: Crossings;
  readonly requests: DeniedRequests;
}

export const createTelemetrySums = (random: () => number): TelemetrySums => ({
  requests: createDeniedRequests(random),
  sums: createMetricSums(),
  denials: createDenialSums(),
  usage: createUsageSums(),
  crossings: createCrossings(),
});
