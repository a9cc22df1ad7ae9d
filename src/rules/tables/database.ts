// Postgres through Neon's HTTP driver. On the request path only the look-up of a caller uses it, under a deadline.
import { neon, neonConfig } from '@neondatabase/serverless';
import { drizzle } from 'drizzle-orm/neon-http';

export interface DatabaseOptions {
  readonly url: string;
  /** Where the driver sends its HTTP requests, if not to Neon itself. The driver keeps this globally. */
  readonly httpEndpoint?: string | undefined;
}

export type Database = ReturnType<typeof createDatabase>;

export function createDatabase({ url, httpEndpoint }: DatabaseOptions) {
  if (httpEndpoint !== undefined) neonConfig.fetchEndpoint = httpEndpoint;
  return drizzle(neon(url), { casing: 'snake_case' });
}
