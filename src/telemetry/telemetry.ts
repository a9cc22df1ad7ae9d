// Counts decisions and answers in memory and hands the sums over after responses: metrics to a region's Redis, denials
// and usage to a queue or to Postgres.
import type { CheckResult } from '../core/decision.ts';
import type { RuleCheck } from '../core/matching/plan.ts';
import type { IsolateReport } from '../core/ports/region.ts';
import type { FlushRegion, Telemetry } from '../core/ports/telemetry.ts';
import type { Collected } from '../core/telemetry/metrics.ts';
import type { Flush } from './flush.ts';
import { createObserver } from './observer.ts';

export interface TelemetryOptions {
  readonly collected: Collected;
  readonly flush: Flush;
  /** By region: the state of this isolate's breaker. */
  readonly breakers: () => Readonly<Record<string, string>>;
  readonly leased: () => IsolateReport['leased'];
  /** The isolate hands its sums over within this time. It is less than the 30 s of work after a response. */
  readonly everyMs: number;
  readonly now: () => number;
  readonly clockMs: () => number;
}

export interface IsolateTelemetry extends Telemetry {
  /** Hands over all that was counted so far. */
  flushNow(regions: readonly FlushRegion[]): Promise<void>;
  /**
   * For code that has no responses: the cron run, and the consumer of a queue. It hands over no records, because
   * records of a consumer would come back to it as the next batch.
   */
  flushMetrics(regions: readonly FlushRegion[]): Promise<void>;
  /** What this isolate reports about itself now. */
  report(): IsolateReport;
  /** Adds the results of shadow rules that were counted after the response. */
  shadowed(results: readonly CheckResult<RuleCheck>[]): void;
}

/** An isolate with this many requests hands over earlier, because the cost is small for each request. */
const BUSY_REQUESTS = 1_000;
const BUSY_MS = 10_000;
const BUSY_ROWS = 1_000;
/** The runtime has dropped a planned flush with its request if it is this late. */
const LOST_MS = 5_000;

export function createTelemetry(options: TelemetryOptions): IsolateTelemetry {
  const { collected, flush, now, clockMs, everyMs, breakers, leased } = options;
  const { denials, usage } = collected;
  const observer = createObserver({ ...collected, now, clockMs });
  let plannedAtMs: number | undefined;
  let handedAtMs = now();
  let requests = 0;

  const report = (): IsolateReport => ({
    atMs: now(),
    breakers: breakers(),
    rulesAgeMs: observer.rulesAgeMs(),
    leased: leased(),
  });

  const isBusy = (nowMs: number) =>
    (requests >= BUSY_REQUESTS || denials.size + usage.size >= BUSY_ROWS) &&
    nowMs - handedAtMs >= Math.min(BUSY_MS, everyMs);

  const run = async (regions: readonly FlushRegion[]) => {
    handedAtMs = now();
    plannedAtMs = undefined;
    requests = 0;
    await flush(regions, report());
  };

  const runLater = async (regions: readonly FlushRegion[], atMs: number) => {
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    // A busy isolate has handed over meanwhile.
    if (plannedAtMs === atMs) await run(regions);
  };

  return {
    clockMs,
    decided(request) {
      requests += 1;
      observer.decided(request);
    },
    checked(call) {
      requests += 1;
      observer.checked(call);
    },
    corrected: observer.corrected,
    answered: observer.answered,
    shadowed: observer.shadowed,
    report,
    flushNow: run,
    flushMetrics: (regions) => flush(regions, report(), 'metrics'),
    flush(regions, afterResponse) {
      const nowMs = now();
      if (isBusy(nowMs)) return afterResponse(run(regions));
      const isPlanned = plannedAtMs !== undefined && Math.abs(nowMs - plannedAtMs) < everyMs + LOST_MS;
      if (isPlanned) return;
      plannedAtMs = nowMs;
      afterResponse(runLater(regions, plannedAtMs));
    },
  };
}
