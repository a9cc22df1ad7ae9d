// What an isolate has counted since it last handed its sums over. It keeps a bounded number of names apart. Code that
// adds to a series looks it up once and keeps it, because building its text for each request costs more.
import { bucketOf, METRICS, type MetricId, OTHER, withoutName } from './metrics.ts';

/** Names of rules, or of routes, that one isolate keeps apart. */
const MAX_NAMES = 200;

export interface Counter {
  add(amount?: number): void;
}

export interface Histogram {
  observe(tookMs: number): void;
}

export interface MetricSums {
  /** The number of series with an amount to hand over. */
  readonly size: number;
  /** Callers that add often should keep the result. */
  counter(metric: MetricId, ...labels: string[]): Counter;
  histogram(metric: MetricId, ...labels: string[]): Histogram;
  /** A name that may be used as a label; `other` once there are too many. */
  nameOf(kind: 'rule' | 'route', name: string): string;
  /** Removes and returns at most `most` series, oldest first. */
  take(most: number): [series: string, amount: number][];
  /** Adds sums that a region has refused under their names. They count under `other`. */
  addWithoutNames(sums: readonly (readonly [series: string, amount: number])[]): void;
}

interface Sum extends Counter {
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
