// What this isolate knows of the rules. Kept in memory and confirmed by the announcement in Redis, which comes
// along with checks that are made anyway; read from KV when there is news.
import { type Announcement, formatAnnouncement, parseAnnouncement } from '../core/announcement.ts';
import type { Snapshot } from '../core/snapshot.ts';
import type { SnapshotSource } from '../core/snapshot-source.ts';
import { type CallerRevisions, NO_REVISIONS } from './caller-revisions.ts';
import type { Kv } from './kv.ts';
import { readCallers, readCurrent, readRules } from './snapshot-kv.ts';
import { withDeadline } from './with-deadline.ts';

/** How often the announcement is asked for, and how long rules are good without an answer. */
const ASK_MS = 250;
const OVERDUE_MS = 500;
/** Only an isolate that has no rules waits so long, and then not again for a moment. */
const COLD_WAIT_MS = 2_000;
const COLD_RETRY_MS = 500;
/** For news, mostly after the response. */
const LOAD_WAIT_MS = 10_000;

export interface SnapshotSourceOptions {
  readonly kv: Kv;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export interface RulesSource extends SnapshotSource {
  callerRevisions(): CallerRevisions;
}

/** All that is in force, replaced as a whole. */
interface Known {
  readonly announcement: Announcement;
  readonly snapshot: Snapshot;
  readonly callers: CallerRevisions;
}

export function createSnapshotSource({ kv, now, onError }: SnapshotSourceOptions): RulesSource {
  let known: Known | undefined;
  let confirmedAtMs = Number.NEGATIVE_INFINITY;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;

  // What is kept between requests are values; each request awaits only promises of its own.
  const bringUpTo = async (announcement: Announcement, asOfMs: number): Promise<boolean> => {
    const before = known;
    const [snapshot, callers] = await Promise.all([
      announcement.rules === before?.announcement.rules ? before.snapshot : readRules(kv, announcement.rules),
      announcement.callers === before?.announcement.callers
        ? before.callers
        : readCallers(kv, announcement.callers),
    ]);
    if (!snapshot) return false;
    // Another request may have brought in something newer meanwhile.
    if (known && known.announcement.sequence > announcement.sequence) return true;
    // A new epoch under a name of its own: what cannot be told apart is forgotten.
    known = { announcement, snapshot, callers: callers ?? { epoch: announcement.callers, revisions: {} } };
    confirmedAtMs = Math.max(confirmedAtMs, asOfMs);
    return true;
  };

  return {
    current: () => known?.snapshot,
    callerRevisions: () => known?.callers ?? NO_REVISIONS,

    question() {
      const nowMs = now();
      if (!known) return undefined;
      const isOverdue = nowMs - confirmedAtMs >= OVERDUE_MS;
      if (!isOverdue && nowMs - Math.max(askedAtMs, confirmedAtMs) < ASK_MS) return undefined;
      askedAtMs = nowMs;
      return { expects: formatAnnouncement(known.announcement), isOverdue, askedAtMs: nowMs };
    },

    confirm: (question) => {
      confirmedAtMs = Math.max(confirmedAtMs, question.askedAtMs);
    },

    async load(announced) {
      const startedAtMs = now();
      const announcement = parseAnnouncement(announced);
      try {
        if (!announcement) throw new Error('the announcement is not understood');
        // A region that missed a publication: the next cron run tells it.
        if (known && announcement.sequence < known.announcement.sequence) return true;
        return await withDeadline(AbortSignal.timeout(LOAD_WAIT_MS), bringUpTo(announcement, startedAtMs));
      } catch (error) {
        onError(error);
        return false;
      }
    },

    async start(board) {
      const startedAtMs = now();
      if (startedAtMs - failedAtMs < COLD_RETRY_MS) return undefined;
      const signal = AbortSignal.timeout(COLD_WAIT_MS);
      try {
        const found = await Promise.allSettled([
          board.read(signal).then(parseAnnouncement),
          withDeadline(signal, readCurrent(kv)),
        ]);
        for (const announcement of newestFirst(found))
          if (await withDeadline(signal, bringUpTo(announcement, startedAtMs))) return known?.snapshot;
      } catch (error) {
        onError(error);
      }
      failedAtMs = now();
      return known?.snapshot;
    },
  };
}

function newestFirst(found: readonly PromiseSettledResult<Announcement | undefined>[]): Announcement[] {
  const announcements = found.flatMap((result) =>
    result.status === 'fulfilled' && result.value ? [result.value] : [],
  );
  return announcements.sort((a, b) => b.sequence - a.sequence);
}
