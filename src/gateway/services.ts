// The interfaces that the HTTP side needs. wiring/isolate.ts provides the real parts.
import type { ExecutionContext } from 'hono';
import type { CheckOptions } from '../checks/checks.ts';
import type { AttemptGuard } from '../core/ports/callers.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import type { IncidentCounts, Log } from '../http/log.ts';
import type { IdentityOptions } from '../identity/identity.ts';
import type { Limiter } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region-calls.ts';
import type { Origins } from '../proxy/origins.ts';
import type { OriginRateLimitHeaders } from '../proxy/response-headers.ts';

export interface OriginOptions {
  readonly rateLimitHeaders: OriginRateLimitHeaders;
  /** In lower case. */
  readonly costHeader: string;
}

/** A token that may check: role `check` or `admin`. */
export interface CheckToken {
  readonly token: string;
  readonly role: 'admin' | 'read' | 'check';
}

export interface Services {
  /** The origins behind Weir. */
  readonly origins: Origins;
  readonly origin: OriginOptions;
  readonly identity: Omit<IdentityOptions, 'afterResponse' | 'deadline'> & {
    readonly unverified: 'count' | 'reject';
  };
  /** The host that alone answers the page, the admin route and metrics, and nothing else; undefined: every host does. */
  readonly adminHost?: string | undefined;
  readonly isDevelopment: boolean;
  /** A variable makes all rules only record what they would have done. */
  readonly isLogOnly?: boolean | undefined;
  /** Whether answers carry X-Weir-Degraded. */
  readonly showsDegraded: boolean;
  readonly regions: Regions;
  /**
   * Nearest region first. Undefined only if the request names an unknown region in X-Weir-Region. Without a request:
   * the regions of the last request that this isolate has seen.
   */
  readonly regionsOf: (request?: Request) => Regions | undefined;
  readonly snapshots: SnapshotSource;
  readonly limiter: Limiter;
  /** For checks without a request. */
  readonly check: CheckOptions & { readonly tokens: readonly CheckToken[] };
  /** Everything under /_weir/admin. */
  readonly admin: (request: Request, context: ExecutionContext) => Promise<Response>;
  /** The refusal of a request without valid admin credentials; undefined if it may read what admins read. */
  readonly adminRefusal: (request: Request) => Promise<Response | undefined>;
  /** Slows down guessing of tokens. */
  readonly guardAttempt: AttemptGuard;
  /** The page for people: /_weir/, and how they log in and out. */
  readonly page: (request: Request) => Promise<Response>;
  /** GET /_weir/metrics, for callers that may read what admins read. */
  readonly metrics: (request: Request) => Promise<Response>;
  readonly telemetry: Telemetry;
  /** Resolves if Postgres answers. Undefined if there is none. */
  readonly pingDatabase: ((signal: AbortSignal) => Promise<void>) | undefined;
  readonly deadlineMs: number;
  readonly now: () => number;
  readonly log: Log;
  readonly incidentCounts: IncidentCounts;
}
