// What this isolate knows of the rules. Kept in memory and confirmed by the announcement in Redis, which comes
// along with checks that are made anyway; read (see published-parts.ts) when there is news.

import type { Snapshot } from '../../core/matching/snapshot.ts';
import {
  type Announcement,
  formatAnnouncement,
  type Part,
  parseAnnouncement,
} from '../../core/ports/announcement.ts';
import type { SnapshotSource } from '../../core/ports/snapshot-source.ts';
import { type CallerRevisions, NO_REVISIONS } from './caller-revisions.ts';
import type { Kv } from './kv.ts';
import { type Reading, readParts } from './published-parts.ts';
import { readCurrent } from './snapshot-kv.ts';
import { withDeadline } from './with-deadline.ts';

/** How often the announcement is asked for, and how long rules are good without an answer. */
const ASK_MS = 250;
const OVERDUE_MS = 500;
/** After a probe without an answer, or news that could not be read, nobody asks for so long. */
const PAUSE_MS = 1_000;
/** Only an isolate that has no rules waits so long, and then not again for a moment. */
const COLD_WAIT_MS = 2_000;
const COLD_PAUSE_MS = 500;
/** Of that, for an announcement in a Redis that may be frozen. */
const COLD_BOARD_MS = 500;
/** For news, mostly after the response. */
const LOAD_WAIT_MS = 10_000;
/** A KV that takes longer is not the only one that is asked. */
const KV_WAIT_MS = 1_000;
/** A load may have been cancelled with its request: then another request loads. */
const STUCK_MS = 1_000;
const LOOK_AGAIN_MS = 5;

export interface SnapshotSourceOptions {
  readonly kv: Kv;
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export interface RulesSource extends SnapshotSource {
  callerRevisions(): CallerRevisions;
}

/** How long to read, and where besides KV. */
type Waits = Pick<Reading, 'signal' | 'kvSignal' | 'copies'>;

const waits = (ms: number, copies: Reading['copies']): Waits => ({
  signal: AbortSignal.timeout(ms),
  kvSignal: AbortSignal.timeout(KV_WAIT_MS),
  copies,
});

/** All that is in force, replaced as a whole. */
interface Known {
  readonly announcement: Announcement;
  readonly announced: string;
  readonly snapshot: Snapshot;
  readonly callers: CallerRevisions;
}

export function createSnapshotSource({ kv, now, onError }: SnapshotSourceOptions): RulesSource {
  // What is kept between requests are values; each request awaits only promises of its own.
  let known: Known | undefined;
  let confirmedAtMs = Number.NEGATIVE_INFINITY;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;
  let loading = { text: '', sinceMs: Number.NEGATIVE_INFINITY };

  /** A moment that lies ahead was told by a clock that has been put back since: it counts as long ago. */
  const isWithin = (momentMs: number, ms: number) => {
    const agoMs = now() - momentMs;
    return agoMs >= 0 && agoMs < ms;
  };
  const isAt = (announcement: Announcement) =>
    known?.announcement.rules === announcement.rules && known.announcement.callers === announcement.callers;

  const confirm = (asOfMs: number) => {
    confirmedAtMs = confirmedAtMs > now() ? asOfMs : Math.max(confirmedAtMs, asOfMs);
  };

  /** Reads what has changed. Of several requests at once one does, and the others look whether it is there. */
  const bringUpTo = async (announcement: Announcement, how: Waits): Promise<boolean> => {
    const text = formatAnnouncement(announcement);
    while (loading.text === text && isWithin(loading.sinceMs, STUCK_MS) && !isAt(announcement)) {
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
      how.signal.throwIfAborted();
    }
    if (isAt(announcement)) return adopt(announcement, known);
    loading = { text, sinceMs: now() };
    try {
      return adopt(announcement, await readChanged(announcement, how));
    } finally {
      if (loading.text === text) loading = { text: '', sinceMs: Number.NEGATIVE_INFINITY };
    }
  };

  const readChanged = async (announcement: Announcement, how: Waits) => {
    const before = known;
    const isSame = (kind: Part['kind']) => announcement[kind] === before?.announcement[kind];
    const changed = (['rules', 'callers'] as const).filter((kind) => !isSame(kind));
    const read = await readParts(
      changed.map((kind) => ({ kind, version: announcement[kind] })),
      { kv, onError, ...how },
    );
    return {
      snapshot: isSame('rules') ? before?.snapshot : read.rules,
      // A new epoch under a name of its own: what cannot be told apart is forgotten.
      callers: (isSame('callers') ? before?.callers : read.callers) ?? {
        epoch: announcement.callers,
        revisions: {},
      },
    };
  };

  const adopt = (
    announcement: Announcement,
    parts: { readonly snapshot: Snapshot | undefined; readonly callers: CallerRevisions } | undefined,
  ): boolean => {
    if (!parts?.snapshot) return false;
    // Another request may have brought in something newer meanwhile.
    if (known && known.announcement.sequence > announcement.sequence) return true;
    const announced = formatAnnouncement(announcement);
    known = { announcement, announced, snapshot: parts.snapshot, callers: parts.callers };
    return true;
  };

  return {
    current: () => known?.snapshot,
    announced: () => known?.announced ?? '',
    callerRevisions: () => known?.callers ?? NO_REVISIONS,
    isConfirmed: (sinceMs) => confirmedAtMs > sinceMs - OVERDUE_MS && confirmedAtMs <= now(),

    probe() {
      if (!known || isWithin(failedAtMs, PAUSE_MS)) return undefined;
      const isOverdue = !isWithin(confirmedAtMs, OVERDUE_MS);
      if (!isOverdue && (isWithin(confirmedAtMs, ASK_MS) || isWithin(askedAtMs, ASK_MS))) return undefined;
      askedAtMs = now();
      return { expected: known.announced, isOverdue, askedAtMs };
    },

    confirm: (probe) => confirm(probe.askedAtMs),
    fail: () => {
      failedAtMs = now();
    },

    async load({ announced, board }) {
      const startedAtMs = now();
      const announcement = parseAnnouncement(announced);
      try {
        if (!announcement) throw new Error('the announcement is not understood');
        // A region that missed a publication: the next cron run tells it.
        if (known && announcement.sequence < known.announcement.sequence) return true;
        const isLoaded = await bringUpTo(announcement, waits(LOAD_WAIT_MS, board));
        if (isLoaded) {
          confirm(startedAtMs);
          // It may have been given up in the meantime: the next request may ask again.
          failedAtMs = Number.NEGATIVE_INFINITY;
        } else failedAtMs = now();
        return isLoaded;
      } catch (error) {
        failedAtMs = now();
        onError(error);
        return false;
      }
    },

    async start(board) {
      const startedAtMs = now();
      if (isWithin(failedAtMs, COLD_PAUSE_MS)) return undefined;
      const how = waits(COLD_WAIT_MS, board);
      try {
        const found = await Promise.allSettled([
          board.read(AbortSignal.timeout(COLD_BOARD_MS)).then(parseAnnouncement),
          withDeadline(how.kvSignal, readCurrent(kv)),
        ]);
        const copies = found[0].status === 'fulfilled' ? board : undefined;
        for (const announcement of newestFirst(found))
          if (await bringUpTo(announcement, { ...how, copies })) {
            // What only KV names may be a minute old: the first call to Redis tells.
            if (found[0].status === 'fulfilled') confirm(startedAtMs);
            return known?.snapshot;
          }
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
  const [first, second] = announcements.sort((a, b) => b.sequence - a.sequence);
  const isTheSame = first?.rules === second?.rules && first?.callers === second?.callers;
  return isTheSame ? announcements.slice(0, 1) : announcements;
}
