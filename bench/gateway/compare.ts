// Compares Weir with its peers, and with its goals.
import type { Table } from '../shared/bench.ts';
import { fixed } from '../shared/table.ts';
import { type Candidate, LABELS } from './candidates.ts';
import type { Latencies } from './latency.ts';
import type { Measured } from './measure.ts';

interface Pair {
  readonly above: Candidate;
  readonly below: Candidate;
}

const THROUGHPUT: readonly (Pair & { readonly atLeast: number })[] = [
  { above: 'oneRule', below: 'ping', atLeast: 0.9 },
  { above: 'fiveRules', below: 'ping', atLeast: 0.85 },
  { above: 'oneRule', below: 'upstashOne', atLeast: 1 },
  { above: 'fiveRules', below: 'upstashFive', atLeast: 3 },
];

/** Compares the costs over the bare proxy. */
const COST: readonly (Pair & { readonly atMost: number })[] = [
  { above: 'oneRule', below: 'fairUpstashOne', atMost: 1 },
  { above: 'oneRegionOneRule', below: 'fairUpstashOne', atMost: 1 },
  { above: 'fiveRules', below: 'fairUpstashFive', atMost: 0.4 },
];

/** The candidates whose costs are compared, and the proxy beside which they are measured. */
export const COMPARED: readonly Candidate[] = [
  ...new Set(['proxy' as const, ...COST.flatMap(({ above, below }) => [above, below])]),
];

/** Compares the p50 that each adds over the bare proxy, with Redis at 5 ms. */
const LATENCY_MS = 5;
const LATENCY: readonly (Pair & { readonly atMost: number })[] = [
  { above: 'fiveRules', below: 'upstashFive', atMost: 0.35 },
  { above: 'fiveRules', below: 'upstashFiveParallel', atMost: 1 },
];

export interface Comparison {
  /** Ratios of requests a second. */
  readonly ratios: Readonly<Record<string, number>>;
  readonly costRatios: Readonly<Record<string, number>>;
  /** The same for each run of fresh processes. */
  readonly costRatiosByRun: Readonly<Record<string, readonly number[]>>;
  readonly latencyRatios: Readonly<Record<string, number>>;
}

const nameOf = ({ above, below }: Pair) => `${above}/${below}`;

export const compareKeys = [
  ...THROUGHPUT.map((pair) => `ratios.${nameOf(pair)}`),
  ...COST.map((pair) => `costRatios.${nameOf(pair)}`),
  ...LATENCY.map((pair) => `latencyRatios.${nameOf(pair)}`),
];

export function compare(
  { ratio, cpuOverProxy, cpuOverProxyByRun }: Measured,
  { added }: Latencies,
): Comparison {
  const addedMs = (name: Candidate) => added[LATENCY_MS]?.[name]?.p50 ?? Number.NaN;
  const each = <T>(pairs: readonly Pair[], times: (pair: Pair) => T) =>
    Object.fromEntries(pairs.map((pair) => [nameOf(pair), times(pair)]));
  return {
    ratios: each(THROUGHPUT, ({ above, below }) => ratio(above, below)),
    costRatios: each(COST, ({ above, below }) => cpuOverProxy[above] / cpuOverProxy[below]),
    costRatiosByRun: each(COST, ({ above, below }) =>
      cpuOverProxyByRun.map((run) => run[above] / run[below]),
    ),
    latencyRatios: each(LATENCY, ({ above, below }) => addedMs(above) / addedMs(below)),
  };
}

export function compareTables(comparison: Comparison): Table[] {
  const { ratios, costRatios, costRatiosByRun, latencyRatios } = comparison;
  const most = (pairs: typeof COST, figures: Readonly<Record<string, number>>) =>
    pairs.map((pair) => row(pair, figures, `≤ ${pair.atMost}`, (times) => times <= pair.atMost));
  return [
    table(
      'Requests a second, compared',
      THROUGHPUT.map((pair) => row(pair, ratios, `≥ ${pair.atLeast}`, (times) => times >= pair.atLeast)),
    ),
    {
      ...table('Processor time over the proxy, compared', most(COST, costRatios)),
      notes: COST.map(
        (pair) =>
          `${pair.above}, run by run: ${(costRatiosByRun[nameOf(pair)] ?? []).map((times) => fixed(times)).join(', ')}`,
      ),
    },
    table(`Time added over the proxy at ${LATENCY_MS} ms to Redis, compared`, most(LATENCY, latencyRatios)),
  ];
}

const table = (title: string, rows: Table['rows']): Table => ({
  title,
  head: ['', 'times', 'wanted', ''],
  rows,
});

function row(
  pair: Pair,
  figures: Readonly<Record<string, number>>,
  wanted: string,
  isWanted: (times: number) => boolean,
): string[] {
  const times = figures[nameOf(pair)] ?? Number.NaN;
  return [
    `${LABELS[pair.above]} / ${LABELS[pair.below]}`,
    fixed(times),
    wanted,
    isWanted(times) ? 'yes' : 'no',
  ];
}
