// What is published, in Workers KV: each part under a key that holds its version, so it is never read stale, and
// one small key that holds the announcement, for isolates that cannot read it in Redis.
import * as z from 'zod';
import { type Announcement, formatAnnouncement, parseAnnouncement } from '../core/announcement.ts';
import type { Snapshot } from '../core/snapshot.ts';
import { decodeSnapshot } from '../core/stored-snapshot.ts';
import { type CallerRevisions, decodeRevisions } from './caller-revisions.ts';
import type { Kv } from './kv.ts';

const CURRENT = 'current';
const RULES = 'rules:';
const CALLERS = 'callers:';
const metadataSchema = z.object({ writtenAtMs: z.number() });
/** How long a version is kept that is no longer in force. */
const KEPT_MS = 24 * 3_600_000;

export const readCurrent = async (kv: Kv): Promise<Announcement | undefined> =>
  parseAnnouncement(await kv.get(CURRENT));

/** KV takes one write a second for a key: the one that is refused is made up for by the next cron run. */
export const writeCurrent = (kv: Kv, announcement: Announcement): Promise<void> =>
  kv.put(CURRENT, formatAnnouncement(announcement));

/** Undefined while KV does not have it, or has something else. */
export async function readRules(kv: Kv, version: string): Promise<Snapshot | undefined> {
  const text = await kv.get(RULES + version);
  return text === null ? undefined : decodeSnapshot(version, text);
}

export async function readCallers(kv: Kv, version: string): Promise<CallerRevisions | undefined> {
  const text = await kv.get(CALLERS + version);
  return text === null ? undefined : decodeRevisions(version, text);
}

export const writeRules = (kv: Kv, version: string, text: string, nowMs: number) =>
  kv.put(RULES + version, text, { metadata: { writtenAtMs: nowMs } });

export const writeCallers = (kv: Kv, version: string, text: string, nowMs: number) =>
  kv.put(CALLERS + version, text, { metadata: { writtenAtMs: nowMs } });

/** Deletes versions that were written a day ago or earlier and are in force nowhere. */
export async function sweep(kv: Kv, inForce: readonly Announcement[], nowMs: number): Promise<void> {
  const kept = new Set(inForce.flatMap(({ rules, callers }) => [RULES + rules, CALLERS + callers]));
  for (const prefix of [RULES, CALLERS]) {
    const { keys } = await kv.list({ prefix });
    const old = keys.filter(
      ({ name, metadata }) => !kept.has(name) && writtenAtMs(metadata) < nowMs - KEPT_MS,
    );
    await Promise.all(old.map(({ name }) => kv.delete(name)));
  }
}

const writtenAtMs = (metadata: unknown): number => metadataSchema.safeParse(metadata).data?.writtenAtMs ?? 0;
