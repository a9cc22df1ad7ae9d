// Another region, for the Weir that has only one. It shares Postgres with the other Weir and nothing else: Redis and KV
// both hold the rules in force, so neither is shared.
import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { startScriptServer } from '../../local/script-server.ts';
import { startUpstashGateway, type UpstashGateway } from '../../local/upstash-gateway/server.ts';

export interface OneRegion {
  readonly gateway: UpstashGateway;
  /** The value of REGIONS. */
  readonly variable: string;
}

export async function startOneRegion(cleanup: AsyncDisposableStack): Promise<OneRegion> {
  const server = await startScriptServer({ port: 0, name: 'only', lua: 'redis' });
  cleanup.defer(() => server.stop());
  const token = randomBytes(16).toString('hex');
  const gateway = await startUpstashGateway({ port: 0, token, redisUrl: server.url, name: 'only' });
  cleanup.defer(() => gateway.stop());
  const region = { name: 'only', url: gateway.url, token, share: 1, latitude: 39, longitude: -77 };
  return { gateway, variable: JSON.stringify([region]) };
}

/** Postgres remembers former splits. The split of one Weir must not become a former split of the other. */
export async function forgetSplit(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  await client.query('delete from weir.placements').finally(() => client.end());
}
