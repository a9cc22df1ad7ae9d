// The metric sums of one region, in Upstash Redis. They are read together with the region's census.

import metrics from '../../lua/metrics.lua';
import { ANNOUNCEMENT_KEY, CENSUS_KEY, METRICS_KEY, reportKey } from '../core/counting/keys.ts';
import { CounterStoreError, type IsolateReport, type MetricsStore } from '../core/ports/region.ts';
import { isNamed } from '../core/telemetry/metrics.ts';
import type { Client } from './client.ts';

/** An isolate retries a batch for less than this. Later, nobody could tell whether the batch has arrived. */
const REPORT_TTL_MS = 3_600_000;
const SUMS_TTL_MS = 35 * 24 * 3_600_000;
/** For all rules and routes of a region. Series beyond that are counted under `other`. */
const MAX_SERIES = 5_000;
/** The most reports that are read: the last ones, because the census lists the newest isolates last. */
const MAX_REPORTS = 500;

export const createMetricsStores = (
  regions: readonly { readonly name: string; readonly client: Client }[],
): ReadonlyMap<string, MetricsStore> =>
  new Map(regions.map(({ name, client }) => [name, createMetricsStore(client)]));

export function createMetricsStore(client: Client): MetricsStore {
  return {
    async flush({ isolateId, number, sums, report }, signal) {
      const always = sums.filter(([series]) => !isNamed(series));
      const named = sums.filter(([series]) => isNamed(series));
      const ordered = [...always, ...named];
      const args = [number, JSON.stringify(report), REPORT_TTL_MS, report.atMs, SUMS_TTL_MS, MAX_SERIES];
      const all = [...args, always.length, ...ordered.flat()].map(String);
      const keys = [METRICS_KEY, reportKey(isolateId)];
      const refused: unknown = await client.command(signal, [
        'EVAL',
        metrics,
        String(keys.length),
        ...keys,
        ...all,
      ]);
      if (!Array.isArray(refused)) throw new CounterStoreError('bad-reply', 'the reply is not a list');
      return refused.flatMap((place) => {
        const sum = ordered[Number(place) - 1];
        return sum ? [sum] : [];
      });
    },

    async read(signal) {
      const [sums, isolates, announcement] = await client.sendAll(signal, (redis) =>
        redis
          .pipeline()
          .hgetall(METRICS_KEY)
          .zrange(CENSUS_KEY, 0, -1)
          .get(ANNOUNCEMENT_KEY)
          .exec({ keepErrors: true }),
      );
      for (const reply of [sums, isolates, announcement]) if (reply?.error) throw reply.error;
      const ids = textsOf(isolates?.result);
      return {
        sums: toSums(textsOf(sums?.result)),
        reports: await readReports(client, ids.slice(-MAX_REPORTS), signal),
        isolateCount: ids.length,
        announced: typeof announcement?.result === 'string' ? announcement.result : undefined,
      };
    },
  };
}

async function readReports(client: Client, ids: readonly string[], signal: AbortSignal) {
  const reports = new Map<string, IsolateReport>();
  if (ids.length === 0) return reports;
  const texts: unknown = await client.send(signal, (redis) => redis.mget(ids.map(reportKey)));
  if (!Array.isArray(texts)) throw new CounterStoreError('bad-reply', 'the reports are not a list');
  for (const [i, text] of texts.entries()) {
    const report = typeof text === 'string' ? parseReport(text) : undefined;
    if (report) reports.set(ids[i] ?? '', report);
  }
  return reports;
}

/** Reads the flat list of fields and values that Redis answers. */
function toSums(flat: readonly string[]): Map<string, number> {
  const sums = new Map<string, number>();
  for (let i = 0; i + 1 < flat.length; i += 2) sums.set(flat[i] ?? '', Number(flat[i + 1]));
  return sums;
}

/** Redis answers null for a missing report. */
function textsOf(reply: unknown): string[] {
  if (reply === null || reply === undefined) return [];
  if (!Array.isArray(reply)) throw new CounterStoreError('bad-reply', 'the reply is not a list');
  return reply.map(String);
}

/** The report follows the number of its batch. */
function parseReport(text: string): IsolateReport | undefined {
  try {
    const report = JSON.parse(text.slice(text.indexOf(' ') + 1));
    const { atMs, rulesAgeMs, breakers } = report;
    const isReport = typeof atMs === 'number' && typeof rulesAgeMs === 'number' && breakers instanceof Object;
    return isReport ? report : undefined;
  } catch {
    return undefined;
  }
}
