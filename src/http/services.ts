// What the HTTP side needs from the rest, as interfaces: the entry puts the real parts in.
import type { ExecutionContext } from 'hono';
import type { CallerDirectory } from '../core/caller.ts';
import type { SnapshotSource } from '../core/snapshot-source.ts';
import type { Limiter, LimiterRegion } from '../limiter/limiter.ts';
import type { Log } from './log.ts';

export interface RegionService extends LimiterRegion {
  readonly name: string;
}

export interface Services {
  readonly originUrl: string;
  readonly isDevelopment: boolean;
  readonly regions: readonly [RegionService, ...RegionService[]];
  /** Undefined only if the request plays a region that there is not. */
  readonly regionOf: (request: Request) => RegionService | undefined;
  readonly snapshots: SnapshotSource;
  readonly limiter: Limiter;
  readonly callers: CallerDirectory;
  /** Everything under /_weir/admin. */
  readonly admin: (request: Request, context: ExecutionContext) => Promise<Response>;
  /** Resolves if Postgres answers. */
  readonly pingDatabase: (signal: AbortSignal) => Promise<void>;
  readonly deadlineMs: number;
  readonly now: () => number;
  readonly log: Log;
}
