// The port between the limiter and wherever snapshots come from.

import type { Snapshot } from '../matching/snapshot.ts';
import type { AnnouncementBoard } from './announcement.ts';

/** What to expect in the region's announcement. */
export interface Probe {
  readonly expected: string;
  /** The rules have not been confirmed for so long that nobody should be judged by them before they are. */
  readonly isOverdue: boolean;
  readonly askedAtMs: number;
}

/** Another announcement than the expected one, and the board of the region that has it. */
export interface OutdatedNotice {
  readonly announced: string;
  readonly board: Pick<AnnouncementBoard, 'readParts'>;
}

export interface SnapshotSource {
  /** What this isolate has, without waiting; undefined if it has never seen any. */
  current(): Snapshot | undefined;
  /** The announcement that was last followed: it changes with the rules, and whenever counters are reset. */
  announced(): string;
  /** A few times a second: what the next call to Redis should ask about. */
  probe(): Probe | undefined;
  /** The region still announces what was expected. */
  confirm(probe: Probe): void;
  /** It could not be asked: for a moment nobody need try. */
  fail(): void;
  /** Whether the rules at hand were known to be in force then, or shortly before. */
  isConfirmed(sinceMs: number): boolean;
  /** Brings this isolate up to an announcement. False if that cannot be had now: it goes on with what it has. */
  load(news: OutdatedNotice): Promise<boolean>;
  /** The first load of a cold isolate, from the announcement or else from KV alone. */
  start(board: Pick<AnnouncementBoard, 'read' | 'readParts'>): Promise<Snapshot | undefined>;
}
