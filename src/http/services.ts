// What the HTTP side needs from the rest, as interfaces: the entry puts the real parts in.
import type { ExecutionContext } from 'hono';
import type { SnapshotSource } from '../core/snapshot-source.ts';
import type { Limiter, LimiterRegion } from '../limiter/limiter.ts';
import type { IdentityOptions } from './identity.ts';
import type { Log } from './log.ts';
import type { OriginRateLimitHeaders } from './origin-headers.ts';

export interface RegionService extends LimiterRegion {
  readonly name: string;
}

export interface OriginOptions {
  readonly url: string;
  readonly timeoutMs: number;
  readonly rateLimitHeaders: OriginRateLimitHeaders;
  readonly costHeader: string;
}

export interface Services {
  readonly origin: OriginOptions;
  readonly identity: Omit<IdentityOptions, 'afterResponse'> & { readonly unverified: 'count' | 'reject' };
  readonly isDevelopment: boolean;
  readonly regions: readonly [RegionService, ...RegionService[]];
  /** Undefined only if the request plays a region that there is not. */
  readonly regionOf: (request: Request) => RegionService | undefined;
  readonly snapshots: SnapshotSource;
  readonly limiter: Limiter;
  /** Everything under /_weir/admin. */
  readonly admin: (request: Request, context: ExecutionContext) => Promise<Response>;
  /** Resolves if Postgres answers. */
  readonly pingDatabase: (signal: AbortSignal) => Promise<void>;
  readonly deadlineMs: number;
  readonly now: () => number;
  readonly log: Log;
}
