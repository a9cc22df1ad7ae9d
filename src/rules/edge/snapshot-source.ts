// The rules of this isolate, kept in memory. The announcement in Redis confirms them. The isolate mostly reads it in
// calls that count checks. When the announcement changes, the isolate reads the new parts (published.ts).

import type { Snapshot } from '../../core/matching/snapshot.ts';
import { type CallerRevisions, NO_REVISIONS } from '../../core/ports/callers.ts';
import {
  type Announcement,
  formatAnnouncement,
  type Published,
  parseAnnouncement,
} from '../../core/ports/region.ts';
import type { SnapshotSource } from '../../core/ports/snapshot-source.ts';
import { RULES_LAPSE_MS } from '../../core/regions/placement.ts';
import { type Kv, type PartSources, readCurrent, readPublished, withDeadline } from './published.ts';

/** How often the announcement is read, and how long rules may be used without an answer. */
const ASK_MS = 250;
const OVERDUE_MS = 500;
/** After a failed probe or a failed load, no request asks for this long. */
const PAUSE_MS = 1_000;
/** How long an isolate without rules waits for them. After that, it does not wait again for a moment. */
const COLD_WAIT_MS = 2_000;
const COLD_PAUSE_MS = 500;
/** The part of that time for the announcement, because Redis may hang. */
const COLD_BOARD_MS = 500;
/** For loading new rules, mostly after the response. */
const LOAD_WAIT_MS = 10_000;
/** If KV takes longer, the copies in Redis are read as well. */
const KV_WAIT_MS = 1_000;
/** A load may have been cancelled with its request. After this time another request loads. */
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

/** How long to wait, and where to read besides KV. */
type Waits = Pick<PartSources, 'signal' | 'kvSignal' | 'copies'>;

const waits = (ms: number, copies: PartSources['copies']): Waits => ({
  signal: AbortSignal.timeout(ms),
  kvSignal: AbortSignal.timeout(KV_WAIT_MS),
  copies,
});

/** Everything in force. It is replaced as a whole. */
interface Known {
  readonly announcement: Announcement;
  readonly announced: string;
  readonly snapshot: Snapshot;
  readonly callers: CallerRevisions;
}

export function createSnapshotSource({ kv, now, onError }: SnapshotSourceOptions): RulesSource {
  // Only values are kept between requests. Each request awaits only its own promises.
  let known: Known | undefined;
  let confirmedAtMs = Number.NEGATIVE_INFINITY;
  let askedAtMs = Number.NEGATIVE_INFINITY;
  let failedAtMs = Number.NEGATIVE_INFINITY;
  let loading = { text: '', sinceMs: Number.NEGATIVE_INFINITY };

  /** A moment in the future means that the clock was put back. It counts as long ago. */
  const isWithin = (momentMs: number, ms: number) => {
    const agoMs = now() - momentMs;
    return agoMs >= 0 && agoMs < ms;
  };
  const isAt = (announcement: Announcement) =>
    known?.announcement.rules === announcement.rules && known.announcement.callers === announcement.callers;

  const confirm = (asOfMs: number) => {
    confirmedAtMs = confirmedAtMs > now() ? asOfMs : Math.max(confirmedAtMs, asOfMs);
  };

  /** Reads the changed parts. If several requests come at once, one reads, and the others check whether it is done. */
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
    const isSame = (kind: Published['kind']) => announcement[kind] === before?.announcement[kind];
    const changed = (['rules', 'callers'] as const).filter((kind) => !isSame(kind));
    const read = await readPublished(
      changed.map((kind) => ({ kind, version: announcement[kind] })),
      { kv, onError, ...how },
    );
    return {
      snapshot: isSame('rules') ? before?.snapshot : read.rules,
      // The list of changed callers is missing, so a new epoch makes the isolate forget all callers.
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
    // Another request may have loaded newer parts meanwhile.
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
      const isLapsed = !isWithin(confirmedAtMs, RULES_LAPSE_MS);
      return { expected: known.announced, isOverdue, isLapsed, askedAtMs };
    },

    confirm: (probe) => confirm(probe.askedAtMs),
    fail: () => {
      failedAtMs = now();
    },

    async load({ announced, pointer }) {
      const startedAtMs = now();
      const announcement = parseAnnouncement(announced);
      try {
        if (!announcement) throw new Error('the announcement is not understood');
        // This region has missed a publication. The next cron run announces it there.
        if (known && announcement.sequence < known.announcement.sequence) return true;
        const isLoaded = await bringUpTo(announcement, waits(LOAD_WAIT_MS, pointer));
        if (isLoaded) {
          confirm(startedAtMs);
          // The request may have given up on this load meanwhile, so the next request may ask again.
          failedAtMs = Number.NEGATIVE_INFINITY;
        } else failedAtMs = now();
        return isLoaded;
      } catch (error) {
        failedAtMs = now();
        onError(error);
        return false;
      }
    },

    async start(pointer) {
      const startedAtMs = now();
      if (isWithin(failedAtMs, COLD_PAUSE_MS)) return undefined;
      const how = waits(COLD_WAIT_MS, pointer);
      try {
        const found = await Promise.allSettled([
          pointer.read(AbortSignal.timeout(COLD_BOARD_MS)).then(parseAnnouncement),
          withDeadline(how.kvSignal, readCurrent(kv)),
        ]);
        const copies = found[0].status === 'fulfilled' ? pointer : undefined;
        for (const announcement of newestFirst(found))
          if (await bringUpTo(announcement, { ...how, copies })) {
            // An announcement from KV may be a minute old, so it confirms nothing. The first call to Redis does.
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
