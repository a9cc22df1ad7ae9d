// The announcement of one region, in Upstash Redis.
import announce from '../../lua/announce.lua';
import { ANNOUNCEMENT_KEY, publishedKey } from '../core/counting/keys.ts';
import { type AnnouncementBoard, formatAnnouncement } from '../core/ports/announcement.ts';
import { CounterStoreError } from '../core/ports/counter-store.ts';
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
