// What the HTTP side needs from the rest, as interfaces: the entry puts the real parts in.
import type { CounterStore } from '../core/counter-store.ts';
import type { SnapshotSource } from '../core/snapshot.ts';
import type { Limiter } from '../limiter/limiter.ts';
import type { Log } from './log.ts';

export interface RegionService {
  readonly name: string;
  readonly store: CounterStore;
}

export interface Services {
  readonly originUrl: string;
  readonly adminToken: string;
  readonly regions: readonly RegionService[];
  /** Undefined only if the request plays a region that there is not. */
  readonly regionOf: (request: Request) => RegionService | undefined;
  readonly snapshots: SnapshotSource;
  readonly limiter: Limiter;
  /** Reads the rules from Postgres and makes them the current snapshot. */
  readonly publish: () => Promise<Publication>;
  /** Resolves if Postgres answers. */
  readonly pingDatabase: (signal: AbortSignal) => Promise<void>;
  readonly deadlineMs: number;
  readonly now: () => number;
  readonly log: Log;
}

export interface Publication {
  readonly version: string;
  readonly changed: boolean;
  readonly ruleCount: number;
  readonly rejected: readonly {
    readonly id: string;
    readonly name: string;
    readonly problems: readonly string[];
  }[];
}
