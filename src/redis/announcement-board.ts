// The announcement of one region, in Upstash Redis.
import announce from '../../lua/announce.lua';
import { type AnnouncementBoard, formatAnnouncement } from '../core/announcement.ts';
import { CounterStoreError } from '../core/counter-store.ts';
import { ANNOUNCEMENT_KEY } from '../core/keys.ts';
import type { Client } from './client.ts';

/** Renewed once a day, so that two renewals may fail. Without one, isolates go on with what they have. */
const TTL_MS = 3 * 24 * 3_600_000;

export function createAnnouncementBoard(client: Client): AnnouncementBoard {
  return {
    async read(signal) {
      const text: unknown = await client.send(signal, (redis) => redis.get(ANNOUNCEMENT_KEY));
      if (text !== null && typeof text !== 'string')
        throw new CounterStoreError('bad-reply', 'the announcement is not text');
      return text ?? undefined;
    },

    async write(announcement, signal) {
      const args = [String(announcement.sequence), formatAnnouncement(announcement), String(TTL_MS)];
      await client.send(signal, (redis) => redis.eval(announce, [ANNOUNCEMENT_KEY], args));
    },
  };
}
