// Hands over what an isolate has counted. Loaded when there is first something to hand over: no request waits for it.
import type { IsolateReport } from '../core/ports/metrics-board.ts';
import type { HandOverRegion } from '../core/ports/telemetry.ts';
import { createMetricsHandOver, type MetricsHandOverOptions } from './metrics-hand-over.ts';
import { createRecordsHandOver, type RecordsHandOverOptions } from './records-hand-over.ts';

export type HandOverOptions = MetricsHandOverOptions & RecordsHandOverOptions;

export type HandOver = (
  regions: readonly HandOverRegion[],
  report: IsolateReport,
  what?: 'all' | 'metrics',
) => Promise<void>;

export function createHandOver(options: HandOverOptions): HandOver {
  const records = createRecordsHandOver(options);
  const metrics = createMetricsHandOver(options);
  return async (regions, report, what = 'all') => {
    // First: how much was handed over is one of the metrics.
    if (what === 'all') await records();
    await metrics(regions, report);
  };
}
