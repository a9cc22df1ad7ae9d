// The three regions of the local stack: each a redis-server behind an Upstash gateway.
import { randomBytes } from 'node:crypto';
import { startRedisServer } from './redis-server.ts';
import { startUpstashGateway } from './upstash-gateway/server.ts';

const PLACES = [
  { name: 'us', latitude: 39, longitude: -77 },
  { name: 'eu', latitude: 50.1, longitude: 8.7 },
  { name: 'ap', latitude: 1.35, longitude: 103.8 },
] as const;

export type LocalRegion = Awaited<ReturnType<typeof startRegion>>;

export interface RegionPorts {
  /** The first of three in a row; 0 for any free ones. */
  readonly redisPort: number;
  readonly upstashPort: number;
}

export async function startRegions(
  { redisPort, upstashPort }: RegionPorts,
  cleanup: AsyncDisposableStack,
): Promise<LocalRegion[]> {
  const regions: LocalRegion[] = [];
  for (const [i, place] of PLACES.entries()) {
    const next = (first: number) => (first === 0 ? 0 : first + i);
    regions.push(await startRegion(place, next(redisPort), next(upstashPort), cleanup));
  }
  return regions;
}

async function startRegion(
  place: (typeof PLACES)[number],
  redisPort: number,
  upstashPort: number,
  cleanup: AsyncDisposableStack,
) {
  const redis = await startRedisServer({ port: redisPort, name: place.name });
  cleanup.defer(() => redis.stop());
  const gateway = await startUpstashGateway({
    port: upstashPort,
    token: randomBytes(16).toString('hex'),
    redisUrl: redis.url,
    name: place.name,
  });
  cleanup.defer(() => gateway.stop());
  return { ...place, share: 1, redis, gateway };
}

/** The value of the Worker's REGIONS variable. */
export function regionsVariable(regions: readonly LocalRegion[]): string {
  return JSON.stringify(
    regions.map(({ name, share, latitude, longitude, gateway }) => ({
      name,
      url: gateway.url,
      token: gateway.token,
      share,
      latitude,
      longitude,
    })),
  );
}
