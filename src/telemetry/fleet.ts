// The metrics of the whole fleet: the sums of each region, those in Postgres, and the last report of each isolate. What
// does not answer is absent. Each series carries the name of its region (`store`), so no sum ever decreases.

import {
  type Announcement,
  type IsolateReport,
  type MetricsStore,
  parseAnnouncement,
  type RegionMetrics,
} from '../core/ports/region.ts';
import { isMetricId, METRIC_IDS, METRICS, type MetricId } from '../core/telemetry/metrics.ts';
import { POSTGRES_STORE, type StoredMetrics } from './store.ts';

// The public name and the help text of each metric. docs/operations.md explains each of them.

export interface MetricText {
  readonly name: string;
  readonly help: string;
}

export const METRIC_TEXTS: Readonly<Record<MetricId, MetricText>> = {
  requests: { name: 'weir_requests_total', help: 'Requests by nearest region, route and result.' },
  checks: { name: 'weir_checks_total', help: 'Checks of rules by result, one for each rule.' },
  checkCalls: {
    name: 'weir_check_calls_total',
    help: 'Calls for checks without a request, by nearest region and result.',
  },
  decision: { name: 'weir_decision_seconds', help: 'Time of the whole decision, as far as it waits.' },
  redis: {
    name: 'weir_redis_seconds',
    help: 'Time of calls to the counters of a region that were answered.',
  },
  redisErrors: { name: 'weir_redis_errors_total', help: 'Calls to the counters of a region that failed.' },
  fallback: { name: 'weir_fallback_total', help: 'Requests that were not decided as they should be.' },
  origin: { name: 'weir_origin_seconds', help: 'Time until the headers of the origin came.' },
  originResponses: { name: 'weir_origin_responses_total', help: 'Answers of origins by class.' },
  billed: {
    name: 'weir_billed_commands_total',
    help: 'Redis commands of decisions as Upstash bills them, at most.',
  },
  denialsHanded: {
    name: 'weir_denials_handed_total',
    help: 'Denials that isolates handed over for Postgres.',
  },
  denialsWritten: { name: 'weir_denials_written_total', help: 'Denials that were written to Postgres.' },
  recordsLag: {
    name: 'weir_records_lag_seconds',
    help: 'Age of batches when they were written to Postgres.',
  },
  deadLetters: { name: 'weir_dead_letters_total', help: 'Batches that came to the dead-letter queue.' },
  webhook: {
    name: 'weir_webhook_messages_total',
    help: 'Messages for the webhook: those that became due, and what became of each attempt.',
  },
  batchesLost: { name: 'weir_metrics_lost_total', help: 'Batches of metrics that could not be handed over.' },
};

export type GaugeId =
  | 'up'
  | 'isolates'
  | 'breaker'
  | 'deadline'
  | 'rulesAge'
  | 'leasedCounters'
  | 'leasedUnits'
  | 'published';

/** Values that Weir reads when somebody asks, instead of adding them up. */
export const GAUGE_TEXTS: Readonly<Record<GaugeId, MetricText & { readonly type: 'gauge' | 'counter' }>> = {
  up: { name: 'weir_region_up', help: 'Whether the Redis of a region answered now.', type: 'gauge' },
  isolates: { name: 'weir_isolates', help: 'Isolates that a region has heard of lately.', type: 'gauge' },
  breaker: { name: 'weir_breaker_state', help: 'Isolates by the state of their breaker.', type: 'gauge' },
  deadline: {
    name: 'weir_deadline_seconds',
    help: 'DEADLINE_MS: the most time that a decision may take.',
    type: 'gauge',
  },
  rulesAge: {
    name: 'weir_rules_version_age_seconds',
    help: 'For so long an isolate has decided by rules that it could not confirm: the longest of all.',
    type: 'gauge',
  },
  leasedCounters: {
    name: 'weir_leases_counters',
    help: 'Counters that isolates have leased units of.',
    type: 'gauge',
  },
  leasedUnits: {
    name: 'weir_leases_units',
    help: 'Units that isolates have charged in advance and not used.',
    type: 'gauge',
  },
  published: {
    name: 'weir_published_total',
    help: 'The number of the publication in force.',
    type: 'counter',
  },
};

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

export interface Family {
  readonly name: string;
  readonly help: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly points: Point[];
}

export interface FleetRegion {
  readonly name: string;
  readonly metrics: MetricsStore;
}

export interface FleetOptions {
  readonly nowMs: number;
  /** The configured deadline of a decision. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** The isolate that reads: it knows its own state, even if no region answers. */
  readonly own?: readonly [isolateId: string, report: IsolateReport] | undefined;
  /** Reads the sums that isolates could hand over to no region; undefined if Postgres does not answer. */
  readonly readStored?: (() => Promise<StoredMetrics | undefined>) | undefined;
  /** Whether to read them although all regions answer. */
  readonly readsStored?: boolean | undefined;
}

/** An isolate that has reported nothing for longer than this has ended, or is idle. */
const REPORT_MS = 180_000;

interface Answer {
  readonly region: string;
  readonly found: RegionMetrics | undefined;
}

/** A place that keeps sums: a region, or Postgres. */
interface StoreAnswer {
  readonly region: string;
  readonly found: StoredMetrics | undefined;
}

export async function readFleet(
  regions: readonly FleetRegion[],
  { nowMs, deadlineMs, signal, own, readStored, readsStored = false }: FleetOptions,
): Promise<Family[]> {
  const answers: Answer[] = await Promise.all(
    regions.map(async ({ name, metrics }) => ({
      region: name,
      found: await metrics.read(signal).catch(() => undefined),
    })),
  );
  // Mostly there is nothing in Postgres, and each read would keep it awake.
  const isNeeded = readsStored || answers.some(({ found }) => !found);
  const stored = isNeeded ? await readStored?.() : undefined;
  const stores: StoreAnswer[] = [...answers, { region: POSTGRES_STORE, found: stored }];
  const reports = newestReports([
    ...stores.flatMap(({ found }) => (found ? [found.reports] : [])),
    new Map(own ? [own] : []),
  ]).filter(({ atMs }) => Math.abs(nowMs - atMs) < REPORT_MS);
  return [...METRIC_IDS.map((id) => toFamily(id, stores)), ...gaugesOf(answers, reports, deadlineMs)];
}

function toFamily(id: MetricId, answers: readonly StoreAnswer[]): Family {
  const { boundsMs } = METRICS[id];
  const points = startingPoints(id, answers);
  for (const { region, found } of answers)
    for (const [series, amount] of found?.sums ?? []) {
      const [name = '', ...values] = series.split('\t');
      if (!isMetricId(name) || name !== id) continue;
      const bucket = boundsMs ? (values.pop() ?? '') : undefined;
      const key = `${region}\t${values.join('\t')}`;
      const point = points.get(key) ?? { labels: { ...labelsOf(id, values), store: region } };
      points.set(key, point);
      if (boundsMs && bucket !== undefined) addBucket(point, boundsMs, bucket, amount);
      else point.value = amount;
    }
  return { ...METRIC_TEXTS[id], type: boundsMs ? 'histogram' : 'counter', points: [...points.values()] };
}

/**
 * A counter without labels starts at 0, before it counts anything. Prometheus sees no increase in a series that begins
 * at 1, so no alert would fire for the first dead letter.
 */
function startingPoints(id: MetricId, answers: readonly StoreAnswer[]): Map<string, Point> {
  const { labels, boundsMs } = METRICS[id];
  if (labels.length > 0 || boundsMs) return new Map();
  const there = answers.filter(({ found }) => found);
  return new Map(there.map(({ region }) => [`${region}\t`, { labels: { store: region }, value: 0 }]));
}

const labelsOf = (id: MetricId, values: readonly string[]): Labels =>
  Object.fromEntries(METRICS[id].labels.map((label, place) => [label, values[place] ?? '']));

function addBucket(point: Point, boundsMs: readonly number[], bucket: string, amount: number): void {
  point.histogram ??= { boundsMs, counts: Array(boundsMs.length + 1).fill(0), sumSeconds: 0 };
  if (bucket === 'sum') point.histogram.sumSeconds = amount / 1_000_000;
  else point.histogram.counts[Number(bucket.slice(1))] = amount;
}

/** What nobody could report is absent: 0 would say that all is well. */
function gaugesOf(
  answers: readonly Answer[],
  reports: readonly IsolateReport[],
  deadlineMs: number,
): Family[] {
  const there = answers.flatMap(({ region, found }) => (found ? [{ region, found }] : []));
  const reported = (figure: () => number): Point[] =>
    reports.length > 0 ? [{ labels: {}, value: figure() }] : [];
  return [
    gauge(
      'up',
      answers.map(({ region, found }) => ({ labels: { region }, value: found ? 1 : 0 })),
    ),
    gauge(
      'isolates',
      there.map(({ region, found }) => ({ labels: { region }, value: found.isolateCount })),
    ),
    gauge('deadline', [{ labels: {}, value: deadlineMs / 1_000 }]),
    gauge('breaker', breakerPoints(answers, reports)),
    gauge(
      'rulesAge',
      reported(() => Math.max(...reports.map(({ rulesAgeMs }) => rulesAgeMs)) / 1_000),
    ),
    gauge(
      'leasedCounters',
      reported(() => sumOf(reports, ({ leased }) => leased?.counters)),
    ),
    gauge(
      'leasedUnits',
      reported(() => sumOf(reports, ({ leased }) => leased?.units)),
    ),
    gauge(
      'published',
      there.flatMap(({ region, found }) => {
        const announcement: Announcement | undefined = parseAnnouncement(found.announced);
        return announcement ? [{ labels: { region }, value: announcement.sequence }] : [];
      }),
    ),
  ];
}

const gauge = (id: GaugeId, points: Point[]): Family => ({ ...GAUGE_TEXTS[id], points });

const sumOf = (
  reports: readonly IsolateReport[],
  figure: (report: IsolateReport) => number | undefined,
): number => reports.reduce((sum, report) => sum + (figure(report) ?? 0), 0);

/** An isolate may have reported to several regions. */
function newestReports(found: readonly RegionMetrics['reports'][]): IsolateReport[] {
  const newest = new Map<string, IsolateReport>();
  for (const reports of found)
    for (const [id, report] of reports)
      if (report.atMs > (newest.get(id)?.atMs ?? Number.NEGATIVE_INFINITY)) newest.set(id, report);
  return [...newest.values()];
}

const STATES = ['closed', 'half-open', 'open'];

const breakerPoints = (answers: readonly Answer[], reports: readonly IsolateReport[]): Point[] =>
  answers
    .filter(({ region }) => reports.some(({ breakers }) => region in breakers))
    .flatMap(({ region }) =>
      STATES.map((state) => ({
        labels: { region, state },
        value: reports.filter(({ breakers }) => breakers[region] === state).length,
      })),
    );
