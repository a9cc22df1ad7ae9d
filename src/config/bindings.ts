// All bindings, variables and secrets of the Worker. Nothing else reads `env`.

import type { Kv } from '../rules/edge/published.ts';
import type { RecordQueue } from '../telemetry/flush.ts';

export interface Bindings {
  /** Workers KV: compiled rules. */
  readonly RULES: Kv;
  /** The API that Weir stands in front of: a URL, `service:NAME` (a service binding) or `pass` (the zone's own). */
  readonly ORIGIN_URL: string;
  /** Secret. JSON list of regions: name, url, token, share, latitude, longitude. Without tokens it is no secret. */
  readonly REGIONS: string;
  /** Secret. The token of one region that has none in REGIONS, such as `REDIS_TOKEN_US_EAST` for `us-east`. */
  readonly [token: `REDIS_TOKEN_${string}`]: string;
  /** Secret. Postgres connection string. */
  readonly DATABASE_URL: string;
  /** Secret. Bearer token of the admin route; its name in the history is `admin`. */
  readonly ADMIN_TOKEN?: string;
  /** Secret. JSON list of further tokens: name, token, role (`admin`, `read` or `check`). */
  readonly ADMIN_TOKENS?: string;
  /** Cloudflare Access in front of the admin route, as JSON: teamDomain, audience, admins (e-mail addresses). */
  readonly ADMIN_ACCESS?: string;
  /** The host that alone answers the page, the admin route and metrics, such as `weir-admin.example.com`. */
  readonly ADMIN_HOST?: string;
  /** `production` (default) or `development`, which enables X-Weir-Region. */
  readonly ENVIRONMENT?: string;
  /** Time for one decision with all its attempts. After that, this isolate decides alone (250). */
  readonly DEADLINE_MS?: string;
  /** Requests a second that an isolate lets through while no region counts them (1000); 0 for any number. */
  readonly ISOLATE_CAP?: string;
  /** `on` (default) or `log`: rules only record what they would have done, even if Postgres is down. */
  readonly ENFORCEMENT?: string;
  /** How many isolates share a region's limits, until the census knows (10). */
  readonly ISOLATES?: string;
  /** `on` (default in development) or `off`: X-Weir-Degraded and X-Weir-Fallback. */
  readonly DEGRADED_HEADER?: string;
  /** How often the cron run asks Postgres for changes, in minutes (1). */
  readonly DATABASE_CHECK_MINUTES?: string;
  /** The deployment, from Cloudflare. After a new one, the cron run publishes again. */
  readonly CF_VERSION_METADATA?: { readonly id: string };
  /** The server that speaks Neon's HTTP protocol, if it is not Neon itself (local development). */
  readonly DATABASE_HTTP_ENDPOINT?: string;
  /**
   * How users' tokens are verified, as JSON: algorithms, jwksUrl, issuer, audience, userClaim (`sub`), tierClaim,
   * tenantClaim. Without it no token is read.
   */
  readonly JWT?: string;
  /** Secret. For algorithms HS256 and HS512. */
  readonly JWT_SECRET?: string;
  /** `count` (default): a request with a bad key or token counts against the IP. `reject`: Weir answers 401. */
  readonly UNVERIFIED?: string;
  /** How many bits of an IPv6 address count (64). */
  readonly IPV6_PREFIX?: string;
  /** The response header in which the origin sends the real cost of a request (X-Weir-Cost). */
  readonly COST_HEADER?: string;
  /** What Weir does with the origin's own rate limit headers: `rename` (default, to X-Origin-…), `drop` or `keep`. */
  readonly ORIGIN_RATE_LIMIT_HEADERS?: string;
  /**
   * `drop` (default) or `keep`: headers that make an origin treat the request as another, such as
   * X-HTTP-Method-Override.
   */
  readonly OVERRIDE_HEADERS?: string;
  /** `refuse` (default) or `allow` (default in development): origins with a loopback or private address. */
  readonly PRIVATE_ORIGINS?: string;
  readonly PLAIN_HTTP?: string;
  /** A queue for denials and usage. Without it, isolates write them to Postgres themselves. */
  readonly RECORDS?: RecordQueue;
  /** Isolates flush their counts within this many seconds (25), down to 0.1. */
  readonly TELEMETRY_SECONDS?: string;
  /** How many days denials are kept (30). */
  readonly EVENTS_DAYS?: string;
  /** How many days usage is kept (400). */
  readonly USAGE_DAYS?: string;
  /** `plain` (default) or `hash`: IP addresses and users are stored as keyed hashes. */
  readonly SUBJECTS?: string;
  /** Secret. The key of these hashes. The default is derived from DATABASE_URL. */
  readonly SUBJECTS_KEY?: string;
  /** Where the cron run pushes metrics, as OTLP/HTTP JSON: the whole URL, such as https://…/v1/metrics. */
  readonly OTLP_URL?: string;
  /** A URL that Weir calls when a subject reaches a threshold of a rule with `alertAt`. */
  readonly ALERT_WEBHOOK?: string;
  /** Secret. Signs messages to ALERT_WEBHOOK: `whsec_` and 24 to 64 bytes in base64. */
  readonly ALERT_WEBHOOK_SECRET?: string;
  /** How long the origin may take for its headers (100000). */
  readonly ORIGIN_TIMEOUT_MS?: string;
}
