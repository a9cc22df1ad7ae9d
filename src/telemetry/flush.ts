// Sends away what an isolate has counted. The isolate loads this module with its first flush. No request waits for it.

import { createSigner, toBase64Url } from '../core/digest.ts';
import type { IsolateReport, MetricsBatch, MetricsStore } from '../core/ports/region.ts';
import type { FlushRegion } from '../core/ports/telemetry.ts';
import { OTHER, type TelemetrySums } from '../core/telemetry/metrics.ts';
import type { Crossing, Denial, DeniedRequest, Usage } from '../core/telemetry/records.ts';
import { isRecent } from '../core/time.ts';
import { withDeadline } from '../rules/edge/published.ts';

/** What a queue carries and Postgres writes. */
export interface RecordBatch {
  /** A batch that comes twice is written once. */
  readonly id: string;
  /** When the isolate cut it, by its own clock. */
  readonly cutAtMs: number;
  readonly denials: readonly Omit<Denial, 'route' | 'requestId'>[];
  readonly usage: readonly Usage[];
  /** Left out if there are none. */
  readonly crossings?: readonly Crossing[];
  readonly requests?: readonly DeniedRequest[];
  /** Metrics that no region took. Such a batch holds nothing else. */
  readonly metrics?: Pick<MetricsBatch, 'isolateId' | 'sums' | 'report'>;
}

export const countDenials = ({ denials }: RecordBatch): number =>
  denials.reduce((total, { count }) => total + count, 0);

/** The part of a Cloudflare queue that Weir uses. */
export interface RecordQueue {
  send(batch: RecordBatch): Promise<unknown>;
}

/** A message, as Cloudflare Queues delivers it. */
export interface QueuedMessage {
  readonly body: unknown;
  readonly attempts: number;
  ack(): void;
  retry(options?: { readonly delaySeconds?: number }): void;
}

export interface QueuedBatch {
  readonly queue: string;
  readonly messages: readonly QueuedMessage[];
}

export interface FlushOptions extends TelemetrySums {
  /** By region. */
  readonly stores: ReadonlyMap<string, MetricsStore>;
  /** Sends a batch to the queue or to Postgres: accepts it for good, or fails. */
  readonly send: (batch: RecordBatch) => Promise<unknown>;
  readonly subjects: Subjects;
  readonly isolateId: () => string;
  readonly createId: () => string;
  readonly now: () => number;
  readonly onDenied: (sample: DenialSample) => void;
  readonly onError: (error: unknown) => void;
}

export type Flush = (
  regions: readonly FlushRegion[],
  report: IsolateReport,
  what?: 'all' | 'metrics',
) => Promise<void>;

export function createFlush(options: FlushOptions): Flush {
  const flushRecords = createRecordsFlush(options);
  const flushMetrics = createMetricsFlush(options);
  return async (regions, report, what = 'all') => {
    // Records come first, because the metrics count the denials that were flushed.
    if (what === 'all') await flushRecords().catch(options.onError);
    await flushMetrics(regions, report);
  };
}

/** A sink that hangs must not keep the metrics back: all of a flush has 30 s. A batch that was late comes again. */
const SEND_MS = 8_000;

/**
 * Batches on their way to the queue or to Postgres. If sending one fails, the isolate keeps it under its id, and sends it
 * again. Postgres writes a batch once, however often it is sent.
 */
function createOutbox({ send, sums, now, createId }: FlushOptions) {
  let batches: readonly RecordBatch[] = [];
  return {
    isEmpty: () => batches.length === 0,
    add(rows: Partial<RecordBatch>): void {
      batches = [...batches, { id: createId(), cutAtMs: now(), denials: [], usage: [], ...rows }];
    },
    async sendAll(): Promise<void> {
      for (const batch of batches) {
        await withDeadline(AbortSignal.timeout(SEND_MS), send(batch));
        // Two requests may have sent it at the same time.
        if (!batches.includes(batch)) continue;
        batches = batches.filter((other) => other !== batch);
        sums.series('denialsFlushed').add(countDenials(batch));
      }
    },
  };
}

// Metrics go to the nearest region that answers. If an answer is lost, the isolate sends the batch to the same region
// again with the same number, and the region adds it once. If no region answers, the sums go the way of the denials, to
// Postgres: operators must see an outage of all regions while it lasts.

/** The most series in one call. The rest waits for the next flush. */
const MAX_SERIES = 200;
const TIMEOUT_MS = 5_000;
/** Redis remembers the number of a batch for an hour. Later, nobody could tell whether it had arrived. */
const RETRY_MS = 50 * 60_000;

function createMetricsFlush(options: FlushOptions) {
  const { sums, stores, isolateId, now, onError } = options;
  /** By region: the batch that was sent and not confirmed. */
  const unconfirmed = new Map<string, MetricsBatch & { readonly firstAtMs: number }>();
  const outbox = createOutbox(options);
  let number = 0;

  const dropOld = () => {
    for (const [region, { firstAtMs }] of unconfirmed) {
      if (isRecent(firstAtMs, now(), RETRY_MS)) continue;
      unconfirmed.delete(region);
      sums.series('metricsLost').add();
    }
  };

  const send = async (region: string) => {
    const batch = unconfirmed.get(region);
    const store = stores.get(region);
    if (!batch || !store) return;
    try {
      sums.addWithoutNames(await store.flush(batch, AbortSignal.timeout(TIMEOUT_MS)));
      // Two requests may have sent it at the same time.
      if (unconfirmed.get(region) === batch) unconfirmed.delete(region);
    } catch (error) {
      onError(error);
    }
  };

  return async (regions: readonly FlushRegion[], report: IsolateReport): Promise<void> => {
    dropOld();
    const closed = regions.filter(({ breaker }) => breaker.state(now()) === 'closed').map(({ name }) => name);
    await Promise.all(closed.map(send));
    // A region that has just not confirmed a batch gets no other one.
    const target = closed.find((name) => stores.has(name) && !unconfirmed.has(name));
    const take = () => ({ isolateId: isolateId(), sums: sums.take(MAX_SERIES), report });
    if (target !== undefined && sums.size > 0) {
      number += 1;
      // Set before the answer arrives: if the runtime drops this request, the next one sends the batch again.
      unconfirmed.set(target, { ...take(), number, firstAtMs: now() });
      await send(target);
    } else if (target === undefined && sums.size > 0 && outbox.isEmpty()) outbox.add({ metrics: take() });
    await outbox.sendAll().catch(onError);
  };
}

// Denials, usage and crossings go to the queue or to Postgres, in batches of the size that a queue takes.

export interface DenialSample {
  readonly rule: string;
  readonly route: string;
  readonly subject: string;
  /** The id of the first of these requests. A check has none. */
  readonly request: string | undefined;
}

/** Lines in the log for each flush: the subjects with the most denials. */
const MAX_SAMPLES = 3;

function createRecordsFlush(options: FlushOptions) {
  const { denials, usage, crossings, requests, subjects, onDenied } = options;
  const outbox = createOutbox(options);

  const sample = async (rows: readonly Denial[]) => {
    const most = [...rows].sort((a, b) => b.count - a.count).slice(0, MAX_SAMPLES);
    for (const { ruleName, route, subject, requestId } of most)
      onDenied({ rule: ruleName, route, subject: await subjects.hash(subject), request: requestId });
  };

  const storedRows = <Row extends Pick<Denial, 'scope' | 'subject'>>(rows: readonly Row[]): Promise<Row[]> =>
    Promise.all(
      rows.map(async (row) => ({ ...row, subject: await subjects.stored(row.scope, row.subject) })),
    );

  const withStoredUsers = <Row extends Pick<Usage, 'userId'>>(rows: readonly Row[]): Promise<Row[]> =>
    Promise.all(rows.map(async (row) => ({ ...row, userId: await subjects.stored('user', row.userId) })));

  const cut = async () => {
    // Takes all sums before it awaits anything.
    const taken = { denials: denials.take(), usage: usage.take() };
    const [crossed, refused] = [crossings.take(), requests.take()];
    await sample(taken.denials);
    const denied = await storedRows(taken.denials.map(({ route: _, requestId: __, ...denial }) => denial));
    const stored = await Promise.all([
      withStoredUsers(denied),
      withStoredUsers(taken.usage),
      storedRows(crossed),
      withStoredUsers(
        await Promise.all(refused.map(async (one) => ({ ...one, rules: await storedRows(one.rules) }))),
      ),
    ]);
    for (const rows of cutToSize(...stored)) outbox.add(rows);
  };

  return async (): Promise<void> => {
    // Sums are cut when all batches before have been sent. Until then they grow, but are bounded.
    await outbox.sendAll();
    if (denials.size + usage.size + crossings.size + requests.size > 0) await cut();
    await outbox.sendAll();
  };
}

/** A message of a queue has at most 128 KB. */
const MAX_BYTES = 100_000;

function cutToSize(
  denials: RecordBatch['denials'],
  usage: readonly Usage[],
  crossings: readonly Crossing[],
  requests: readonly DeniedRequest[],
): Partial<RecordBatch>[] {
  const pieces = [
    ...piecesOf(denials).map((some) => ({ denials: some })),
    ...piecesOf(usage).map((some) => ({ usage: some })),
    ...piecesOf(crossings).map((some) => ({ crossings: some })),
    ...piecesOf(requests).map((some) => ({ requests: some })),
  ];
  const bytes = pieces.reduce((sum, piece) => sum + sizeOf(piece), 0);
  // Mostly there are few rows of each kind, and one message holds all of them.
  return pieces.length > 1 && bytes < MAX_BYTES ? [Object.assign({}, ...pieces)] : pieces;
}

function piecesOf<Row>(rows: readonly Row[]): Row[][] {
  const pieces: Row[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const row of rows) {
    const size = sizeOf(row) + 1;
    if (bytes + size > MAX_BYTES) {
      pieces.push([]);
      bytes = 0;
    }
    pieces.at(-1)?.push(row);
    bytes += size;
  }
  return pieces;
}

const sizeOf = (value: unknown) => new TextEncoder().encode(JSON.stringify(value)).length;

// Subjects are stored in plain text or as keyed hashes. With a hash, a subject is still one row, but nobody without the
// key can find out its address or user, not even by trying all of them.

export interface Subjects {
  /** The keyed hash of a subject, even if subjects are stored in plain text. */
  hash(subject: string): Promise<string>;
  /** The subject as it is stored: in plain text, or as a hash. */
  stored(scope: Denial['scope'], subject: string): Promise<string>;
}

export interface SubjectsOptions {
  readonly isHashed: boolean;
  /** Secret. */
  readonly key: string;
}

/** Long enough that no two subjects of a deployment have the same hash. */
const HASH_LENGTH = 22;

/** The operator chooses the ids of keys and tenants, so they name no person. */
const isPersonal = (scope: Denial['scope']) => scope === 'ip' || scope === 'user';

export function createSubjects({ isHashed, key }: SubjectsOptions): Subjects {
  const sign = createSigner(`weir-subjects ${key}`);
  const hash = async (subject: string) => `h:${toBase64Url(await sign(subject)).slice(0, HASH_LENGTH)}`;
  return {
    hash,
    stored: async (scope, subject) =>
      isHashed && isPersonal(scope) && subject !== OTHER && subject !== '' ? hash(subject) : subject,
  };
}
