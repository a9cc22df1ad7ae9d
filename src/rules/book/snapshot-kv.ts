// Published parts in Workers KV. The key of a part contains its version, so a read is never stale. One small key holds
// the announcement, for isolates that cannot read it in Redis.

import type { Snapshot } from '../../core/matching/snapshot.ts';
import { decodeSnapshot } from '../../core/matching/stored-snapshot.ts';
import { type Announcement, formatAnnouncement, parseAnnouncement } from '../../core/ports/announcement.ts';
import { type CallerRevisions, decodeRevisions } from './caller-revisions.ts';
import type { Kv } from './kv.ts';

const CURRENT = 'current';
const RULES = 'rules:';
const CALLERS = 'callers:';
/** The cron run writes parts in force again every day. Old parts expire. */
const KEPT_SECONDS = 30 * 86_400;

export const readCurrent = async (kv: Kv): Promise<Announcement | undefined> =>
  parseAnnouncement(await kv.get(CURRENT));

/** KV takes one write a second for each key. If it refuses one, the next cron run writes again. */
export const writeCurrent = (kv: Kv, announcement: Announcement): Promise<void> =>
  kv.put(CURRENT, formatAnnouncement(announcement));

/** Undefined if KV does not have this version. */
export async function readRules(kv: Kv, version: string): Promise<Snapshot | undefined> {
  const text = await kv.get(RULES + version);
  return text === null ? undefined : decodeSnapshot(version, text);
}

export async function readCallers(kv: Kv, version: string): Promise<CallerRevisions | undefined> {
  const text = await kv.get(CALLERS + version);
  return text === null ? undefined : decodeRevisions(version, text);
}

export const writeRules = (kv: Kv, version: string, text: string): Promise<void> =>
  kv.put(RULES + version, text, { expirationTtl: KEPT_SECONDS });

export const writeCallers = (kv: Kv, version: string, text: string): Promise<void> =>
  kv.put(CALLERS + version, text, { expirationTtl: KEPT_SECONDS });
