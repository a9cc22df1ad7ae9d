// Hands an isolate's sums over to the nearest region that answers. If an answer is lost, the isolate sends the batch to
// the same region again with the same number, and the region adds it once. If no region answers, the sums go the way
// of the denials, to Postgres: operators must see an outage of all regions while it lasts.
import type { IsolateReport, MetricsBatch, MetricsBoard } from '../core/ports/metrics-board.ts';
import type { HandOverRegion } from '../core/ports/telemetry.ts';
import type { MetricSums } from '../core/telemetry/metric-sums.ts';
import type { RecordBatch, RecordSink } from './record-batch.ts';

export interface MetricsHandOverOptions {
  readonly sums: MetricSums;
  readonly boards: ReadonlyMap<string, MetricsBoard>;
  /** For sums that no region takes. */
  readonly records: RecordSink;
  readonly isolateId: () => string;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** The most series in one call. The rest waits for the next hand-over. */
const MAX_SERIES = 200;
const TIMEOUT_MS = 5_000;
/** Redis remembers the number of a batch for an hour. Later, nobody could tell whether it had arrived. */
const RETRY_MS = 50 * 60_000;

interface Sent {
  readonly batch: MetricsBatch;
  readonly firstAtMs: number;
}

export function createMetricsHandOver(options: MetricsHandOverOptions) {
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

  const send = async (region: string, board: MetricsBoard, sent: Sent) => {
    // Set before the answer arrives: if the runtime drops this request, the next one sends the batch again.
    unconfirmed.set(region, sent);
    try {
      sums.addWithoutNames(await board.handOver(sent.batch, AbortSignal.timeout(TIMEOUT_MS)));
      unconfirmed.delete(region);
    } catch (error) {
      onError(error);
    }
  };

  const sendAgain = async ({ name }: HandOverRegion) => {
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

  return async (regions: readonly HandOverRegion[], report: IsolateReport): Promise<void> => {
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
