// Hands over what an isolate has counted. The isolate loads this module with its first hand-over. No request waits for
// it.
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
    // Records come first, because the metrics count the denials that were handed over.
    if (what === 'all') await records();
    await metrics(regions, report);
  };
}
