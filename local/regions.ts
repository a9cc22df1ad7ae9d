// The three regions of the local stack: each a redis-server behind an Upstash gateway.
import { randomBytes } from 'node:crypto';
import { startRedisCluster } from './redis-cluster.ts';
import { type LuaEngine, startScriptServer } from './script-server.ts';
import { startUpstashGateway } from './upstash-gateway/server.ts';

const PLACES = [
  { name: 'us', latitude: 39, longitude: -77 },
  { name: 'eu', latitude: 50.1, longitude: 8.7 },
  { name: 'ap', latitude: 1.35, longitude: 103.8 },
] as const;

export type LocalRegion = Awaited<ReturnType<typeof startRegion>>;

export interface RegionsOptions {
  /** The first of three consecutive ports; 0 for any free ones. */
  readonly redisPort: number;
  readonly upstashPort: number;
  /** The Lua that runs the scripts. The default is that of Redis. */
  readonly lua?: LuaEngine | undefined;
  /** Whether the first region is a Redis Cluster. */
  readonly cluster?: boolean | undefined;
}

export async function startRegions(
  { redisPort, upstashPort, lua, cluster = false }: RegionsOptions,
  cleanup: AsyncDisposableStack,
): Promise<LocalRegion[]> {
  const regions: LocalRegion[] = [];
  for (const [i, place] of PLACES.entries()) {
    const next = (first: number) => (first === 0 ? 0 : first + i);
    const isCluster = cluster && i === 0;
    const options = { redisPort: next(redisPort), upstashPort: next(upstashPort), lua, cluster: isCluster };
    regions.push(await startRegion(place, options, cleanup));
  }
  return regions;
}

async function startRegion(
  place: (typeof PLACES)[number],
  { redisPort, upstashPort, lua = 'redis', cluster: isCluster = false }: RegionsOptions,
  cleanup: AsyncDisposableStack,
) {
  const cluster = isCluster ? await startRedisCluster(place.name) : undefined;
  if (cluster) cleanup.defer(() => cluster.stop());
  const server = await startScriptServer({ port: redisPort, name: place.name, lua });
  cleanup.defer(() => server.stop());
  const gateway = await startUpstashGateway({
    port: upstashPort,
    token: randomBytes(16).toString('hex'),
    redisUrl: server.url,
    clusterUrls: cluster?.urls,
    runsUpstashLua: lua === 'gopher',
    name: place.name,
  });
  cleanup.defer(() => gateway.stop());
  return { ...place, share: 1, redis: server.redis, cluster, gateway };
}

/** The value of the Worker's REGIONS variable. */
export function regionsVariable(regions: readonly LocalRegion[]): string {
  return JSON.stringify(
    regions.map(({ name, share, latitude, longitude, cluster, gateway }) => ({
      name,
      url: gateway.url,
      token: gateway.token,
      ...(cluster && { cluster: true }),
      share,
      latitude,
      longitude,
    })),
  );
}
