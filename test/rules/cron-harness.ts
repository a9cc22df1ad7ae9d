// Cron runs on real publications, minute by minute, and what they cost.
import { createMetricSums } from '../../src/core/telemetry/metrics.ts';
import type { PublishOptions } from '../../src/rules/publishing/publish.ts';
import { sendAlerts } from '../../src/telemetry/alerts.ts';
import { deleteOld } from '../../src/telemetry/store.ts';
import { type CronTelemetry, runCron } from '../../src/wiring/cron.ts';
import { usePublishing } from './publish-harness.ts';

const MINUTE_MS = 60_000;
const NOON = Date.parse('2026-11-17T12:00:00Z');
export const MIDNIGHT = Date.parse('2026-11-18T00:00:00Z');

interface Hour {
  readonly from?: number;
  readonly databaseCheckMinutes?: number;
  readonly options?: PublishOptions;
  /** Whether there is a webhook for thresholds. */
  readonly hasWebhook?: boolean;
}

/** As in an isolate: deletes old rows, and looks for alerts. There are none. */
function telemetryOf({ database, onError }: PublishOptions, hasWebhook: boolean): CronTelemetry {
  const now = () => NOON;
  const webhook = { url: 'http://localhost:1', secret: '' };
  return {
    deleteOld: () => deleteOld(database, { eventsDays: 30, usageDays: 400, nowMs: now() }),
    pushMetrics: undefined,
    sendAlerts: hasWebhook
      ? () => sendAlerts({ database, webhook, now, sums: createMetricSums() })
      : undefined,
    onError,
  };
}

/** Call it once in a test file. */
export function useCron() {
  const publishing = usePublishing();
  const { before, createOptions, reads, regions, writes } = publishing;

  /** Sixty runs of one isolate, each in its minute, and what they cost. */
  async function hourOfCron({
    from = NOON,
    databaseCheckMinutes = 1,
    options = createOptions(),
    hasWebhook = false,
  }: Hour = {}) {
    let postgresQueries = 0;
    const others = before.step;
    before.step = async (step) => {
      if (step === 'postgres') postgresQueries += 1;
      await others(step);
    };
    reads.length = 0;
    writes.length = 0;
    const billed = () => Promise.all(regions().map(async ({ gateway }) => (await gateway.stats()).billed));
    const billedBefore = await billed();
    const parts = { publishing: options, databaseCheckMinutes, telemetry: telemetryOf(options, hasWebhook) };
    for (let minute = 0; minute < 60; minute += 1) await runCron(parts, from + minute * MINUTE_MS);
    const redisCommands = (await billed()).map((now, i) => now - (billedBefore[i] ?? 0));
    before.step = others;
    return { kvReads: reads.length, kvWrites: writes.length, redisCommands, postgresQueries };
  }

  /** One run at noon, of an isolate that has just started. */
  const runOnce = (options = createOptions(), databaseCheckMinutes = 1) =>
    runCron({ publishing: options, databaseCheckMinutes }, NOON + MINUTE_MS);

  return { ...publishing, hourOfCron, runOnce };
}
