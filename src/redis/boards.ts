// The announcement of one region, in Upstash Redis.

import announce from '../../lua/announce.lua';
import census from '../../lua/census.lua';
import metrics from '../../lua/metrics.lua';
import { ANNOUNCEMENT_KEY, CENSUS_KEY, METRICS_KEY, publishedKey, reportKey } from '../core/counting/keys.ts';
import {
  type AnnouncementBoard,
  type CensusBoard,
  CHECK_RECORD_MS,
  type CheckRecords,
  CounterStoreError,
  formatAnnouncement,
  type IsolateReport,
  isIsolateCount,
  type MetricsBoard,
} from '../core/ports/region.ts';
import { isNamed } from '../core/telemetry/metrics.ts';
import type { Client } from './client.ts';

/** The cron run renews the announcement daily, so two renewals may fail. Without it, isolates keep their rules. */
const TTL_MS = 3 * 24 * 3_600_000;
const PART_TTL_MS = TTL_MS;

export function createAnnouncementBoard(client: Client): AnnouncementBoard {
  return {
    async read(signal) {
      const text: unknown = await client.command(signal, ['GET', ANNOUNCEMENT_KEY]);
      if (text !== null && typeof text !== 'string')
        throw new CounterStoreError('bad-reply', 'the announcement is not text');
      return text ?? undefined;
    },

    async write(announcement, signal) {
      const args = [String(announcement.sequence), formatAnnouncement(announcement), String(TTL_MS)];
      await client.send(signal, (redis) => redis.eval(announce, [ANNOUNCEMENT_KEY], args));
    },

    async readPublished(parts, signal) {
      const texts: unknown = await client.command(signal, ['MGET', ...parts.map(publishedKey)]);
      if (!Array.isArray(texts) || texts.length !== parts.length || !texts.every(isTextOrNone))
        throw new CounterStoreError('bad-reply', 'the copies are not text');
      return texts.map((text) => text ?? undefined);
    },

    async writeParts(parts, signal) {
      const replies = await client.sendAll(signal, (redis) => {
        const pipeline = redis.pipeline();
        for (const part of parts) pipeline.set(publishedKey(part), part.packed, { px: PART_TTL_MS });
        return pipeline.exec({ keepErrors: true });
      });
      for (const { error } of replies) if (error) throw error;
    },
  };
}

const isTextOrNone = (text: unknown): text is string | null => text === null || typeof text === 'string';

// The list of isolates of one region, in Upstash Redis.

/** Isolates report once a minute. One that missed a minute still counts; one that missed two does not. */
const KEEP_MS = 150_000;

export function createCensusBoard(client: Pick<Client, 'command'>): CensusBoard {
  return {
    async present(isolateId, signal) {
      // Sends the whole script, because it runs once a minute. A SHA would need a retry when Redis has lost the script.
      const count: unknown = await client.command(signal, [
        'EVAL',
        census,
        '1',
        CENSUS_KEY,
        isolateId,
        String(KEEP_MS),
      ]);
      if (!isIsolateCount(count))
        throw new CounterStoreError('bad-reply', 'the reply is not a number of isolates');
      return count;
    },
  };
}

// The records of checks in one region, in Upstash Redis.

/** A claim ends after this time if its isolate dies before it answers. */
const CLAIM_MS = 60_000;

const keyOf = (name: string) => `weir:{check}:${name}`;

export function createCheckRecords(client: Client): CheckRecords {
  return {
    async claim(name, text, signal) {
      const [set, got] = await client.pipeline(signal, [
        ['SET', keyOf(name), text, 'NX', 'PX', String(CLAIM_MS)],
        ['GET', keyOf(name)],
      ]);
      if (set?.error) throw set.error;
      if (set?.result === 'OK') return undefined;
      if (got?.error) throw got.error;
      if (typeof got?.result !== 'string') throw new CounterStoreError('bad-reply', 'the record is not text');
      return got.result;
    },
    async write(name, text, signal) {
      await client.command(signal, ['SET', keyOf(name), text, 'PX', String(CHECK_RECORD_MS)]);
    },
    async drop(name, signal) {
      await client.command(signal, ['DEL', keyOf(name)]);
    },
  };
}

// The metric sums of one region, in Upstash Redis. They are read together with the region's census.

/** An isolate retries a batch for less than this. Later, nobody could tell whether the batch has arrived. */
const REPORT_TTL_MS = 3_600_000;
const SUMS_TTL_MS = 35 * 24 * 3_600_000;
/** For all rules and routes of a region. Series beyond that are counted under `other`. */
const MAX_SERIES = 5_000;
/** The most reports that the board reads. It takes the last ones, because the census lists the newest isolates last. */
const MAX_REPORTS = 500;

export function createMetricsBoard(client: Client): MetricsBoard {
  return {
    async handOver({ isolateId, number, sums, report }, signal) {
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
    const report: unknown = JSON.parse(text.slice(text.indexOf(' ') + 1));
    return isReport(report) ? report : undefined;
  } catch {
    return undefined;
  }
}

const isReport = (value: unknown): value is IsolateReport =>
  typeof value === 'object' &&
  value !== null &&
  'atMs' in value &&
  typeof value.atMs === 'number' &&
  'rulesAgeMs' in value &&
  typeof value.rulesAgeMs === 'number' &&
  'breakers' in value &&
  typeof value.breakers === 'object' &&
  value.breakers !== null;
