// The metrics of the whole fleet: the sums of each region, those in Postgres, and the last report of each isolate. What
// does not answer is absent. Each series carries the name of its region (`store`), so no sum ever decreases.

import {
  type IsolateReport,
  type MetricsStore,
  parseAnnouncement,
  type RegionMetrics,
} from '../core/ports/region.ts';
import { METRICS, type MetricId } from '../core/telemetry/metrics.ts';
import { isRecent } from '../core/time.ts';
import type { StoredMetrics } from './store.ts';

export type Labels = Readonly<Record<string, string>>;

export interface Histogram {
  readonly boundsMs: readonly number[];
  /** The count of each bucket alone; the last bucket has no bound. */
  readonly counts: number[];
  sumSeconds: number;
}

export interface Point {
  readonly labels: Labels;
  value?: number;
  histogram?: Histogram;
}

/** A metric with its public name. docs/operations.md explains each of them. */
export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly points: readonly Point[];
}

export interface FleetOptions {
  readonly nowMs: number;
  /** The configured deadline of a decision. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** The isolate that reads: it knows its own state, even if no region answers. */
  readonly own?: readonly [isolateId: string, report: IsolateReport] | undefined;
  /** Reads the sums that no region took; undefined if Postgres does not answer. */
  readonly readStored?: (() => Promise<StoredMetrics | undefined>) | undefined;
  /** Whether to read them although all regions answer. */
  readonly readsStored?: boolean | undefined;
}

/** An isolate that has reported nothing for longer than this has ended, or is idle. */
const REPORT_MS = 180_000;
/** No region has this name, because no name of a region holds such a character. */
const POSTGRES = '_postgres';

/** Undefined: the region does not answer. */
type RegionAnswers = ReadonlyMap<string, RegionMetrics | undefined>;
/** The regions that answer, and Postgres if it was asked. */
type Stores = readonly (readonly [store: string, kept: StoredMetrics])[];

export async function readFleet(
  regions: ReadonlyMap<string, MetricsStore>,
  { nowMs, deadlineMs, signal, own, readStored, readsStored = false }: FleetOptions,
): Promise<Family[]> {
  const answers: RegionAnswers = new Map(
    await Promise.all(
      [...regions].map(
        async ([name, store]) => [name, await store.read(signal).catch(() => undefined)] as const,
      ),
    ),
  );
  const there = [...answers].flatMap(([name, kept]) => (kept ? [[name, kept] as const] : []));
  // Mostly there is nothing in Postgres, and each read would keep it awake.
  const isNeeded = readsStored || there.length < answers.size;
  const stored = isNeeded ? await readStored?.() : undefined;
  const stores: Stores = stored ? [...there, [POSTGRES, stored]] : there;
  const reports = newestReports([...stores.flatMap(([, kept]) => [...kept.reports]), ...(own ? [own] : [])]);
  const recent = reports.filter(({ atMs }) => isRecent(atMs, nowMs, REPORT_MS));
  return [
    ...Object.entries(HELP).map(([id, help]) => familyOf(id as MetricId, help, stores)),
    ...gaugesOf(answers, recent, deadlineMs),
  ];
}

const HELP: Readonly<Record<MetricId, string>> = {
  requests: 'Requests by nearest region, route and result.',
  checks: 'Checks of rules by result, one for each rule.',
  checkCalls: 'Calls for checks without a request, by nearest region and result.',
  decision: 'Time of the whole decision, as far as it waits.',
  redis: 'Time of calls to the counters of a region that were answered.',
  redisErrors: 'Calls to the counters of a region that failed.',
  fallback: 'Requests that were not decided as they should be.',
  origin: 'Time until the headers of the origin came.',
  originResponses: 'Answers of origins by class.',
  billedCommands: 'Redis commands of decisions as Upstash bills them, at most.',
  denialsFlushed: 'Denials that isolates have sent to the queue, or to Postgres.',
  denialsWritten: 'Denials that were written to Postgres.',
  recordsLag: 'Age of batches when they were written to Postgres.',
  deadLetters: 'Batches that came to the dead-letter queue.',
  webhookMessages: 'Messages for the webhook: those that became due, and what became of each attempt.',
  metricsLost: 'Batches of metrics that their region did not confirm in time.',
};

function familyOf(id: MetricId, help: string, stores: Stores): Family {
  const { labels, boundsMs } = METRICS[id];
  const points = new Map<string, Point>();
  for (const [store, { sums }] of stores) {
    // A counter without labels starts at 0, before it counts anything. Prometheus sees no increase in a series that
    // begins at 1, so no alert would fire for the first dead letter.
    if (labels.length === 0 && !boundsMs) points.set(`${store}\t`, { labels: { store }, value: 0 });
    for (const [series, amount] of sums) {
      const [metric, ...values] = series.split('\t');
      if (metric !== id) continue;
      const bucket = boundsMs ? (values.pop() ?? '') : undefined;
      const key = `${store}\t${values.join('\t')}`;
      const named = Object.fromEntries(labels.map((label, place) => [label, values[place] ?? '']));
      const point = points.get(key) ?? { labels: { ...named, store } };
      points.set(key, point);
      if (boundsMs && bucket !== undefined) addBucket(point, boundsMs, bucket, amount);
      else point.value = amount;
    }
  }
  const name = id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return {
    name: `weir_${name}_${boundsMs ? 'seconds' : 'total'}`,
    help,
    type: boundsMs ? 'histogram' : 'counter',
    points: [...points.values()],
  };
}

function addBucket(point: Point, boundsMs: readonly number[], bucket: string, amount: number): void {
  point.histogram ??= { boundsMs, counts: Array(boundsMs.length + 1).fill(0), sumSeconds: 0 };
  if (bucket === 'sum') point.histogram.sumSeconds = amount / 1_000_000;
  else point.histogram.counts[Number(bucket.slice(1))] = amount;
}

/** An isolate may have reported to several stores. */
function newestReports(reports: readonly (readonly [isolateId: string, report: IsolateReport])[]) {
  const newest = new Map<string, IsolateReport>();
  for (const [id, report] of reports)
    if (report.atMs > (newest.get(id)?.atMs ?? Number.NEGATIVE_INFINITY)) newest.set(id, report);
  return [...newest.values()];
}

const STATES = ['closed', 'half-open', 'open'];

/** Values that Weir reads when somebody asks. What nobody could report is absent: 0 would say that all is well. */
function gaugesOf(answers: RegionAnswers, reports: readonly IsolateReport[], deadlineMs: number): Family[] {
  const regions = [...answers.keys()].filter((region) => reports.some(({ breakers }) => region in breakers));
  const byRegion = (figure: (kept: RegionMetrics | undefined) => number | undefined): Point[] =>
    [...answers].flatMap(([region, kept]) => pointOf({ region }, figure(kept)));
  const ofReports = (figure: () => number) => pointOf({}, reports.length > 0 ? figure() : undefined);
  const leased = (what: 'counters' | 'units') =>
    ofReports(() => reports.reduce((sum, report) => sum + (report.leased?.[what] ?? 0), 0));
  return [
    gauge(
      'weir_region_up',
      'Whether the Redis of a region answered now.',
      byRegion((kept) => (kept ? 1 : 0)),
    ),
    gauge(
      'weir_isolates',
      'Isolates that a region has heard of lately.',
      byRegion((kept) => kept?.isolateCount),
    ),
    gauge(
      'weir_deadline_seconds',
      'DEADLINE_MS: the most time that a decision may take.',
      pointOf({}, deadlineMs / 1_000),
    ),
    gauge(
      'weir_breaker_state',
      'Isolates by the state of their breaker.',
      regions.flatMap((region) =>
        STATES.flatMap((state) =>
          pointOf({ region, state }, reports.filter(({ breakers }) => breakers[region] === state).length),
        ),
      ),
    ),
    gauge(
      'weir_rules_version_age_seconds',
      'For so long an isolate has decided by rules that it could not confirm: the longest of all.',
      ofReports(() => Math.max(...reports.map(({ rulesAgeMs }) => rulesAgeMs)) / 1_000),
    ),
    gauge('weir_leases_counters', 'Counters that isolates have leased units of.', leased('counters')),
    gauge('weir_leases_units', 'Units that isolates have charged in advance and not used.', leased('units')),
    {
      ...gauge(
        'weir_published_total',
        'The number of the publication in force.',
        byRegion((kept) => parseAnnouncement(kept?.announced)?.sequence),
      ),
      type: 'counter',
    },
  ];
}

const gauge = (name: string, help: string, points: Point[]): Family => ({
  name,
  help,
  type: 'gauge',
  points,
});

const pointOf = (labels: Labels, value: number | undefined): Point[] =>
  value === undefined ? [] : [{ labels, value }];
