// The port through which the limiter gets snapshots.

import type { Snapshot } from '../matching/snapshot.ts';
import type { RulesPointer } from './region.ts';

/** A question to a region: does it still announce what this isolate expects? */
export interface Probe {
  readonly expected: string;
  /** The last confirmation is too old: a region must confirm the rules before they decide. */
  readonly isOverdue: boolean;
  /** The last confirmation is so old that the rules decide only if no newer rules can be loaded: see placement.ts. */
  readonly isLapsed: boolean;
  readonly askedAtMs: number;
}

/** Another announcement than the expected one, and the pointer of the region that has it. */
export interface OutdatedNotice {
  readonly announced: string;
  readonly pointer: Pick<RulesPointer, 'readPublished'>;
}

export interface SnapshotSource {
  /** The rules of this isolate, without waiting; undefined if it has never loaded any. */
  current(): Snapshot | undefined;
  /** The announcement that this isolate follows. It changes with the rules and with every reset of counters. */
  announced(): string;
  /** A probe for the next call to Redis, a few times a second; else undefined. */
  probe(): Probe | undefined;
  /** The region still announces what was expected. */
  confirm(probe: Probe): void;
  /** The region could not be asked. For a moment, no request tries again. */
  fail(): void;
  /** Whether the rules were confirmed at that moment or shortly before. */
  isConfirmed(sinceMs: number): boolean;
  /** Loads the announced rules. False if they cannot be loaded now; the isolate then keeps the rules it has. */
  load(news: OutdatedNotice): Promise<boolean>;
  /** The first load of a cold isolate, from the announcement or else from KV alone. */
  start(pointer: Pick<RulesPointer, 'read' | 'readPublished'>): Promise<Snapshot | undefined>;
}
