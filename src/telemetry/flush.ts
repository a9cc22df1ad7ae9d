// Hands over what an isolate has counted. The isolate loads this module with its first flush. No request waits for
// it.

import type { IsolateReport, MetricsBatch, MetricsStore } from '../core/ports/region.ts';
import type { FlushRegion } from '../core/ports/telemetry.ts';
import type { Collected, MetricSums } from '../core/telemetry/metrics.ts';
import type { Crossing, Denial, Usage } from '../core/telemetry/records.ts';
import { withDeadline } from '../rules/edge/published.ts';
import type { Subjects } from './subjects.ts';

// Hands an isolate's sums over to the nearest region that answers. If an answer is lost, the isolate sends the batch to
// the same region again with the same number, and the region adds it once. If no region answers, the sums go the way
// of the denials, to Postgres: operators must see an outage of all regions while it lasts.

export interface MetricsFlushOptions {
  readonly sums: MetricSums;
  readonly boards: ReadonlyMap<string, MetricsStore>;
  /** For sums that no region takes. */
  readonly records: RecordSink;
  readonly isolateId: () => string;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** The most series in one call. The rest waits for the next flush. */
const MAX_SERIES = 200;
const TIMEOUT_MS = 5_000;
/** Redis remembers the number of a batch for an hour. Later, nobody could tell whether it had arrived. */
const RETRY_MS = 50 * 60_000;

interface Sent {
  readonly batch: MetricsBatch;
  readonly firstAtMs: number;
}

export function createMetricsFlush(options: MetricsFlushOptions) {
  const { sums, boards, records, isolateId, now, onError } = options;
  /** By region: the batch that was sent and not confirmed. */
  const unconfirmed = new Map<string, Sent>();
  /** The batch for Postgres that was not accepted yet. */
  let unsent: RecordBatch | undefined;
  let number = 0;

  const dropOld = () => {
    for (const [region, { firstAtMs }] of unconfirmed) {
      if (Math.abs(now() - firstAtMs) < RETRY_MS) continue;
      unconfirmed.delete(region);
      sums.counter('batchesLost').add();
    }
  };

  const send = async (region: string, board: MetricsStore, sent: Sent) => {
    // Set before the answer arrives: if the runtime drops this request, the next one sends the batch again.
    unconfirmed.set(region, sent);
    try {
      sums.addWithoutNames(await board.flush(sent.batch, AbortSignal.timeout(TIMEOUT_MS)));
      unconfirmed.delete(region);
    } catch (error) {
      onError(error);
    }
  };

  const sendAgain = async ({ name }: FlushRegion) => {
    const sent = unconfirmed.get(name);
    const board = boards.get(name);
    if (sent && board) await send(name, board, sent);
  };

  const cutForPostgres = (report: IsolateReport) => {
    if (unsent || sums.size === 0) return;
    const metrics = { isolateId: isolateId(), sums: sums.take(MAX_SERIES), report };
    unsent = { id: crypto.randomUUID(), cutAtMs: now(), denials: [], usage: [], metrics };
  };

  const sendToPostgres = async () => {
    const batch = unsent;
    if (!batch) return;
    try {
      await records.send(batch);
      // Two requests may have sent it at the same time.
      if (unsent === batch) unsent = undefined;
    } catch (error) {
      onError(error);
    }
  };

  return async (regions: readonly FlushRegion[], report: IsolateReport): Promise<void> => {
    dropOld();
    const closed = regions.filter(({ breaker }) => breaker.state(now()) === 'closed');
    await Promise.all(closed.map(sendAgain));
    // A region that has just not confirmed a batch gets no other one.
    const target = closed.find(({ name }) => boards.has(name) && !unconfirmed.has(name));
    const board = target && boards.get(target.name);
    if (!board) cutForPostgres(report);
    else if (sums.size > 0) {
      number += 1;
      const batch = { isolateId: isolateId(), number, sums: sums.take(MAX_SERIES), report };
      await send(target.name, board, { batch, firstAtMs: now() });
    }
    await sendToPostgres();
  };
}

// Batches of denials and usage that isolates hand over, cut to the size that a queue takes.

export interface RecordBatch {
  /** A batch that comes twice is written once. */
  readonly id: string;
  /** When the isolate cut it, by its own clock. */
  readonly cutAtMs: number;
  readonly denials: readonly Denial[];
  readonly usage: readonly Usage[];
  /** Left out if there are none. */
  readonly crossings?: readonly Crossing[];
  /** Metrics that no region took. Such a batch holds nothing else. */
  readonly metrics?: MetricsRecord;
}

/** What an isolate hands over if no region takes it. */
export interface MetricsRecord extends Pick<MetricsBatch, 'isolateId' | 'sums' | 'report'> {}

/** Accepts batches for good, or fails. */
export interface RecordSink {
  send(batch: RecordBatch): Promise<void>;
}

/** A message of a queue has at most 128 KB. */
const MAX_BYTES = 100_000;

export interface Cut extends Pick<RecordBatch, 'denials' | 'usage'> {
  readonly nowMs: number;
  readonly createId: () => string;
  readonly crossings: readonly Crossing[];
}

export function cutBatches({ nowMs, createId, denials, usage, crossings }: Cut): RecordBatch[] {
  const pieces: Partial<RecordBatch>[] = [
    ...piecesOf(denials).map((some) => ({ denials: some })),
    ...piecesOf(usage).map((some) => ({ usage: some })),
    ...piecesOf(crossings).map((some) => ({ crossings: some })),
  ];
  const bytes = pieces.reduce((sum, piece) => sum + sizeOf(piece), 0);
  // Mostly there are few rows of each kind, and one message holds all of them.
  const messages = pieces.length > 1 && bytes < MAX_BYTES ? [Object.assign({}, ...pieces)] : pieces;
  return messages.map((rows) => ({ id: createId(), cutAtMs: nowMs, denials: [], usage: [], ...rows }));
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

// Hands denials and usage over, to a queue or straight to Postgres. If that fails, the isolate keeps the batch and its
// id, and sends it again. Postgres gets the batch once, however often it is sent.

export interface DeniedSample {
  readonly rule: string;
  readonly route: string;
  readonly subject: string;
}

export interface RecordsFlushOptions extends Collected {
  readonly records: RecordSink;
  readonly subjects: Subjects;
  readonly now: () => number;
  readonly onDenied: (denied: DeniedSample) => void;
  readonly onError: (error: unknown) => void;
}

/** Lines in the log for each flush: the subjects with the most denials. */
const MAX_SAMPLES = 3;

export function createRecordsFlush(options: RecordsFlushOptions) {
  const { sums, denials, usage, crossings, records, subjects, now, onDenied, onError } = options;
  /** Until these batches are handed over, the isolate cuts no others. The sums in memory grow, but are bounded. */
  let unsent: readonly RecordBatch[] = [];

  const sample = async (rows: readonly Denial[]) => {
    const most = [...rows].sort((a, b) => b.count - a.count).slice(0, MAX_SAMPLES);
    for (const { ruleName, route, subject } of most)
      onDenied({ rule: ruleName, route, subject: await subjects.hash(subject) });
  };

  const cut = async () => {
    // Takes all sums before it awaits anything.
    const [denied, used, crossed] = [denials.take(), usage.take(), crossings.take()];
    const createId = () => crypto.randomUUID();
    await sample(denied);
    const rows = {
      denials: await subjects.subjectsOf(denied),
      usage: await subjects.usage(used),
      crossings: await subjects.subjectsOf(crossed),
    };
    unsent = [...unsent, ...cutBatches({ nowMs: now(), createId, ...rows })];
  };

  const handed = (batch: RecordBatch) => {
    // Two requests may have sent it at the same time.
    if (!unsent.includes(batch)) return;
    unsent = unsent.filter(({ id }) => id !== batch.id);
    const count = countOf(batch);
    if (count > 0) sums.counter('denialsHanded').add(count);
  };

  const sendAll = async () => {
    for (const batch of unsent) {
      await records.send(batch);
      handed(batch);
    }
  };

  return async (): Promise<void> => {
    try {
      // First sends the batches that failed before, then the sums since.
      await sendAll();
      if (denials.size + usage.size + crossings.size > 0) await cut();
      await sendAll();
    } catch (error) {
      onError(error);
    }
  };
}

export const countOf = ({ denials }: RecordBatch): number =>
  denials.reduce((total, { count }) => total + count, 0);

export type FlushOptions = MetricsFlushOptions & RecordsFlushOptions;

export type Flush = (
  regions: readonly FlushRegion[],
  report: IsolateReport,
  what?: 'all' | 'metrics',
) => Promise<void>;

export function createFlush(options: FlushOptions): Flush {
  const records = createRecordsFlush(options);
  const metrics = createMetricsFlush(options);
  return async (regions, report, what = 'all') => {
    // Records come first, because the metrics count the denials that were handed over.
    if (what === 'all') await records();
    await metrics(regions, report);
  };
}

// Where an isolate hands denials and usage over: to a queue, or straight to Postgres if there is none.

/** A sink that hangs must not keep the metrics back: all of a flush has 30 s. A batch that was late comes again. */
const SEND_MS = 8_000;

/** The part of a Cloudflare queue that Weir uses. */
export interface RecordQueue {
  send(batch: RecordBatch): Promise<unknown>;
}

export interface RecordSinkOptions {
  readonly queue: RecordQueue | undefined;
  /** Whether the batch was new. */
  readonly write: (batch: RecordBatch) => Promise<boolean>;
  readonly onWritten: (batch: RecordBatch) => void;
}

export function createRecordSink({ queue, write, onWritten }: RecordSinkOptions): RecordSink {
  const limited = <T>(work: Promise<T>) => withDeadline(AbortSignal.timeout(SEND_MS), work);
  if (queue) return { send: async (batch) => void (await limited(queue.send(batch))) };
  const writeOnce = async (batch: RecordBatch) => {
    if (await write(batch)) onWritten(batch);
  };
  return { send: (batch) => limited(writeOnce(batch)) };
}
