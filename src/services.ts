// Puts the real parts together, once per isolate. Only this file and the entry see everything.
import { sql } from 'drizzle-orm';
import type { Bindings } from './bindings.ts';
import { type Config, parseConfig } from './config.ts';
import { nearestRegion, type RequestOrigin } from './core/regions.ts';
import { createLog } from './http/log.ts';
import type { Services } from './http/services.ts';
import { createLimiter } from './limiter/limiter.ts';
import { splitBySlot } from './limiter/slot-split.ts';
import { createUpstashStore } from './redis/upstash-store.ts';
import { createDatabase } from './rules/database.ts';
import { publishRules } from './rules/publish.ts';
import { createSnapshotSource } from './rules/snapshot-source.ts';

export function createServices(env: Bindings): Services {
  const config = parseConfig(env);
  const now = () => Date.now();
  const log = createLog(now, (line) => console.warn(line));
  const database = createDatabase({ url: config.databaseUrl, httpEndpoint: config.databaseHttpEndpoint });
  const regions = createRegions(config);

  return {
    originUrl: config.originUrl,
    adminToken: config.adminToken,
    deadlineMs: config.deadlineMs,
    now,
    log,
    regions,
    regionOf: (request) => regionOf(request, regions, config.isDevelopment),
    limiter: createLimiter({ deadlineMs: config.deadlineMs }),
    snapshots: createSnapshotSource({
      kv: config.rulesKv,
      now,
      onError: (error) => log.error('snapshot-unreadable', error),
    }),
    publish: () => publishRules(database, config.rulesKv),
    pingDatabase: (signal) => withSignal(signal, database.execute(sql`select 1`)),
  };
}

type RegionParts = ReturnType<typeof createRegions>[number];

function createRegions({ regions }: Config) {
  const create = ({ name, url, token, cluster, latitude, longitude }: Config['regions'][number]) => ({
    name,
    latitude,
    longitude,
    store: cluster ? splitBySlot(createUpstashStore({ url, token })) : createUpstashStore({ url, token }),
  });
  const [first, ...others] = regions;
  return [create(first), ...others.map(create)] as const;
}

function regionOf(
  request: Request,
  regions: readonly [RegionParts, ...RegionParts[]],
  isDevelopment: boolean,
): RegionParts | undefined {
  const played = isDevelopment ? request.headers.get('X-Weir-Region') : null;
  if (played !== null) return regions.find(({ name }) => name === played);
  return nearestRegion(regions, (request.cf ?? {}) as RequestOrigin);
}

/** Drizzle's HTTP driver takes no signal: the answer of a query that is late is not waited for. */
async function withSignal(signal: AbortSignal, query: Promise<unknown>): Promise<void> {
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
  await Promise.race([query, aborted]);
}
