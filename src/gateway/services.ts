// The interfaces that the HTTP side needs. wiring/isolate.ts provides the real parts.
import type { ExecutionContext } from 'hono';
import type { CheckOptions } from '../checks/checks.ts';
import type { Caller } from '../core/matching/caller.ts';
import type { AttemptGuard } from '../core/ports/callers.ts';
import type { SnapshotSource } from '../core/ports/snapshot-source.ts';
import type { Telemetry } from '../core/ports/telemetry.ts';
import type { ClientRequest } from '../http/guard.ts';
import type { IncidentCounts, Log } from '../http/log.ts';
import type { IdentityOptions } from '../identity/identity.ts';
import type { Limiter } from '../limiter/limiter.ts';
import type { Regions } from '../limiter/region.ts';
import type { OriginHeaderPolicy } from '../proxy/headers.ts';
import type { Origins } from '../proxy/origins.ts';
import type { ProxyResult } from '../proxy/proxy.ts';

/** What the way of a request needs. */
export interface GatewayServices {
  /** The origins behind Weir. */
  readonly origins: Origins;
  readonly origin: OriginHeaderPolicy;
  readonly identity: Omit<IdentityOptions, 'afterResponse' | 'deadline'> & {
    readonly unverified: 'count' | 'reject';
  };
  readonly isDevelopment: boolean;
  /** A variable makes all rules only record what they would have done. */
  readonly isLogOnly?: boolean | undefined;
  /** Whether answers carry X-Weir-Degraded. */
  readonly showsDegraded: boolean;
  readonly limiter: Limiter;
  readonly telemetry: Telemetry;
  readonly now: () => number;
  readonly log: Log;
  readonly incidentCounts: IncidentCounts;
}

/** What the front door and Weir's own routes need besides. */
export interface Services extends GatewayServices {
  /** The host that alone answers the page, the admin route and metrics, and nothing else; undefined: every host does. */
  readonly adminHost?: string | undefined;
  readonly regions: Regions;
  /**
   * Nearest region first. Undefined only if the request names an unknown region in X-Weir-Region. Without a request:
   * the regions of the last request that this isolate has seen.
   */
  readonly regionsOf: (request?: Request) => Regions | undefined;
  readonly snapshots: SnapshotSource;
  readonly deadlineMs: number;
  /** For checks without a request. */
  readonly check: CheckOptions;
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
  /** Resolves if Postgres answers. Undefined if there is none. */
  readonly pingDatabase: ((signal: AbortSignal) => Promise<void>) | undefined;
}

/** The app that Weir is the middleware of. */
export interface AppBehind {
  /** Takes the place of the origin. `setHeaders` makes the headers of its answer those of Weir's, if it must send them itself. */
  readonly next?: (
    caller: Caller | undefined,
    setHeaders: (headers: Headers) => void,
  ) => Promise<ProxyResult>;
  /** The request with the caller that the app names, if it names one. Never rejects. */
  readonly named?: ((request: ClientRequest) => Promise<ClientRequest>) | undefined;
}
