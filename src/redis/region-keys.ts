// What a region's Redis keeps beside counters: the announcement, the list of isolates, and the records of checks.

import announce from '../../lua/announce.lua';
import census from '../../lua/census.lua';
import { ANNOUNCEMENT_KEY, CENSUS_KEY, publishedKey } from '../core/counting/keys.ts';
import {
  CHECK_RECORD_MS,
  type CheckRecords,
  CounterStoreError,
  formatAnnouncement,
  type RulesPointer,
} from '../core/ports/region.ts';
import type { CensusOptions } from '../core/regions/census.ts';
import type { Client } from './client.ts';

/** The cron run renews the announcement daily, so two renewals may fail. Without it, isolates keep their rules. */
const TTL_MS = 3 * 24 * 3_600_000;
const PART_TTL_MS = TTL_MS;

export function createRulesPointer(client: Client): RulesPointer {
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

// The list of isolates of one region: see core/regions/census.ts.

/** Isolates report once a minute. One that missed a minute still counts; one that missed two does not. */
const KEEP_MS = 150_000;

/** Sends the whole script, because it runs once a minute. A SHA would need a retry when Redis has lost the script. */
export const presentTo =
  (client: Pick<Client, 'command'>): CensusOptions['present'] =>
  (isolateId, signal) =>
    client.command(signal, ['EVAL', census, '1', CENSUS_KEY, isolateId, String(KEEP_MS)]);

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
