// What an isolate has counted since it last handed its sums over. Only so many series are held apart.
import { bucketOf, METRICS, type MetricId, OTHER, withoutName } from './metrics.ts';

/** Names of rules, or of routes, that one isolate keeps apart. */
const MAX_NAMES = 200;

export interface MetricSums {
  readonly size: number;
  add(metric: MetricId, labels: string, amount?: number): void;
  /** For a histogram. `labels` is empty, or ends with a tab. */
  observe(metric: MetricId, labels: string, tookMs: number): void;
  /** A name that may be used as a label; `other` once there are too many. */
  nameOf(kind: 'rule' | 'route', name: string): string;
  /** Takes the first so many series out, oldest first. */
  take(most: number): [series: string, amount: number][];
  /** Sums that were not accepted under their names. */
  addWithoutNames(sums: readonly (readonly [series: string, amount: number])[]): void;
}

export function createMetricSums(): MetricSums {
  const sums = new Map<string, number>();
  const names = { rule: new Set<string>(), route: new Set<string>() };
  const addTo = (series: string, amount: number) => void sums.set(series, (sums.get(series) ?? 0) + amount);

  return {
    get size() {
      return sums.size;
    },
    add: (metric, labels, amount = 1) => addTo(labels === '' ? metric : `${metric}\t${labels}`, amount),
    observe(metric, labels, tookMs) {
      const { boundsMs = [] } = METRICS[metric];
      addTo(`${metric}\t${labels}${bucketOf(boundsMs, tookMs)}`, 1);
      // Microseconds, so that sums are whole numbers.
      if (tookMs > 0) addTo(`${metric}\t${labels}sum`, Math.round(tookMs * 1_000));
    },
    nameOf(kind, name) {
      const known = names[kind];
      if (known.has(name)) return name;
      if (known.size >= MAX_NAMES) return OTHER;
      known.add(name);
      return name;
    },
    take(most) {
      const taken: [string, number][] = [];
      for (const entry of sums) {
        if (taken.length === most) break;
        taken.push(entry);
      }
      for (const [series] of taken) sums.delete(series);
      return taken;
    },
    addWithoutNames: (refused) => {
      for (const [series, amount] of refused) addTo(withoutName(series), amount);
    },
  };
}
