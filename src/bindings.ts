// All that the Worker is given from outside: bindings, variables and secrets. Nothing else reads `env`.

import type { KVNamespace } from '@cloudflare/workers-types';

export interface Bindings {
  /** Workers KV: compiled rules. */
  readonly RULES: KVNamespace;
  /** The API that Weir stands in front of. */
  readonly ORIGIN_URL: string;
  /** Secret. JSON list of regions: name, url, token, share, latitude, longitude. */
  readonly REGIONS: string;
  /** Secret. Postgres connection string. */
  readonly DATABASE_URL: string;
  /** Secret. Bearer token of the admin route; its name in the history is `admin`. */
  readonly ADMIN_TOKEN?: string;
  /** Secret. JSON list of further tokens: name, token, role (`admin` or `read`). */
  readonly ADMIN_TOKENS?: string;
  /** Cloudflare Access in front of the admin route, as JSON: teamDomain, audience, admins (e-mail addresses). */
  readonly ADMIN_ACCESS?: string;
  /** `production` (default) or `development`, which enables X-Weir-Region. */
  readonly ENVIRONMENT?: string;
  /** Time for one decision before the request goes on uncounted. */
  readonly DEADLINE_MS?: string;
  /** Where Neon's HTTP protocol is spoken, if not at Neon itself (local development). */
  readonly DATABASE_HTTP_ENDPOINT?: string;
}
