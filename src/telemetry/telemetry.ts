// What Weir tells its operators: metrics, denials, usage, alerts. No request waits for any of it.
//
//   collect   collect.ts turns each event into sums in memory (core/telemetry). Their size is bounded: in a flood, names
//             are lost, counts are not.
//   flush     now and then, after a response, an isolate sends its sums away (flush.ts): metrics to the nearest region
//             that answers, denials and usage to a queue, or straight to Postgres if there is none. While no region
//             answers, metrics go the way of denials, so that operators see the outage while it lasts.
//   store     the queue's consumer writes each batch into Postgres with one statement (store.ts), and sends the alerts
//             of the batch (alerts.ts).
//   query     queries.ts and would-deny.ts read denials and usage for the admin route. fleet.ts reads the metrics of all
//             isolates, and exports.ts writes them for Prometheus and OTLP.
//
// Each batch has a name and counts once, however often it is sent. What an isolate has not flushed when it dies is lost:
// at most one interval. This file decides when to flush.
import type { IsolateReport } from '../core/ports/region.ts';
import type { FlushRegion, Telemetry } from '../core/ports/telemetry.ts';
import type { TelemetrySums } from '../core/telemetry/metrics.ts';
import { isRecent } from '../core/time.ts';
import type { Collector } from './collect.ts';
import type { Flush } from './flush.ts';

export interface TelemetryOptions {
  /** Turns events into the sums below. */
  readonly collector: Collector;
  readonly collected: Pick<TelemetrySums, 'denials' | 'usage'>;
  readonly flush: Flush;
  /** By region: the state of this isolate's breaker. */
  readonly breakers: () => Readonly<Record<string, string>>;
  readonly leased: () => IsolateReport['leased'];
  /** The isolate flushes within this time. It is less than the 30 s of work after a response. */
  readonly everyMs: number;
  readonly now: () => number;
  readonly clockMs: () => number;
}

export interface IsolateTelemetry extends Telemetry {
  /**
   * For code that has no responses: the cron run, and the consumer of a queue. It flushes no records, because
   * records of a consumer would come back to it as the next batch.
   */
  flushMetrics(regions: readonly FlushRegion[]): Promise<void>;
  /** What this isolate reports about itself now. */
  report(): IsolateReport;
}

/** An isolate with this many requests flushes earlier, because the cost is small for each request. */
const BUSY_REQUESTS = 1_000;
const BUSY_MS = 10_000;
const BUSY_ROWS = 1_000;
/** The runtime has dropped a planned flush with its request if it is this late. */
const LOST_MS = 5_000;

export function createTelemetry(options: TelemetryOptions): IsolateTelemetry {
  const { collector, collected, flush, now, clockMs, everyMs, breakers, leased } = options;
  const { denials, usage } = collected;
  let plannedAtMs: number | undefined;
  let flushedAtMs = now();
  let requests = 0;

  const report = (): IsolateReport => ({
    atMs: now(),
    breakers: breakers(),
    rulesAgeMs: collector.rulesAgeMs(),
    leased: leased(),
  });

  const isBusy = (nowMs: number) =>
    (requests >= BUSY_REQUESTS || denials.size + usage.size >= BUSY_ROWS) &&
    nowMs - flushedAtMs >= Math.min(BUSY_MS, everyMs);

  const run = async (regions: readonly FlushRegion[]) => {
    flushedAtMs = now();
    plannedAtMs = undefined;
    requests = 0;
    await flush(regions, report());
  };

  const runLater = async (regions: readonly FlushRegion[], atMs: number) => {
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    // A busy isolate has flushed meanwhile.
    if (plannedAtMs === atMs) await run(regions);
  };

  return {
    clockMs,
    decided(request) {
      requests += 1;
      collector.decided(request);
    },
    checked(call) {
      requests += 1;
      collector.checked(call);
    },
    corrected: collector.corrected,
    answered: collector.answered,
    report,
    flushMetrics: (regions) => flush(regions, report(), 'metrics'),
    flush(regions, afterResponse) {
      const nowMs = now();
      if (isBusy(nowMs)) return afterResponse(run(regions));
      const isPlanned = plannedAtMs !== undefined && isRecent(plannedAtMs, nowMs, everyMs + LOST_MS);
      if (isPlanned) return;
      plannedAtMs = nowMs;
      afterResponse(runLater(regions, plannedAtMs));
    },
  };
}
