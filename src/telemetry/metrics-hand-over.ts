// Hands an isolate's sums over to the nearest region that answers. If an answer is lost, the isolate sends the batch to
// the same region again with the same number, and the region adds it once.
import type { IsolateReport, MetricsBatch, MetricsBoard } from '../core/ports/metrics-board.ts';
import type { HandOverRegion } from '../core/ports/telemetry.ts';
import type { MetricSums } from '../core/telemetry/metric-sums.ts';

export interface MetricsHandOverOptions {
  readonly sums: MetricSums;
  readonly boards: ReadonlyMap<string, MetricsBoard>;
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

export function createMetricsHandOver({ sums, boards, isolateId, now, onError }: MetricsHandOverOptions) {
  /** By region: the batch that was sent and not confirmed. */
  const unconfirmed = new Map<string, Sent>();
  let number = 0;

  const nextFor = (region: string, report: IsolateReport): Sent | undefined => {
    const waiting = unconfirmed.get(region);
    if (waiting) return waiting;
    if (sums.size === 0) return undefined;
    number += 1;
    const batch = { isolateId: isolateId(), number, sums: sums.take(MAX_SERIES), report };
    return { batch, firstAtMs: now() };
  };

  const dropOld = () => {
    for (const [region, { firstAtMs }] of unconfirmed) {
      if (Math.abs(now() - firstAtMs) < RETRY_MS) continue;
      unconfirmed.delete(region);
      sums.counter('batchesLost').add();
    }
  };

  return async (regions: readonly HandOverRegion[], report: IsolateReport): Promise<void> => {
    dropOld();
    const target = regions.find(({ breaker }) => breaker.state(now()) === 'closed');
    const board = target && boards.get(target.name);
    const next = board && nextFor(target.name, report);
    if (!next) return;
    // Set before the answer arrives: if the runtime drops this request, the next one sends the batch again.
    unconfirmed.set(target.name, next);
    try {
      sums.addWithoutNames(await board.handOver(next.batch, AbortSignal.timeout(TIMEOUT_MS)));
      unconfirmed.delete(target.name);
    } catch (error) {
      onError(error);
    }
  };
}
