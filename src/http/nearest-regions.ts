// The regions of a request, nearest first.
import { nearestRegion, type RequestOrigin, routesFrom, type ServingPlace } from '../core/regions/nearest.ts';
import type { LimiterRegion, Regions } from '../limiter/region.ts';
import type { Services } from './services.ts';

type ServedRegion = LimiterRegion & ServingPlace;

/** How long an isolate reuses the location of one request. */
const LOOK_EVERY_MS = 1_000;

/**
 * The nearest region of a request, then the others by their distance to it. Reading `cf` makes the runtime parse it, so
 * the isolate reads it rarely: never with one region, and otherwise once a second, because an isolate stays in its data
 * centre. If a region serves countries or continents, the isolate reads it for every request.
 */
export function createNearestRegions(
  regions: readonly [ServedRegion, ...ServedRegion[]],
  { isDevelopment, now }: { readonly isDevelopment: boolean; readonly now: () => number },
): Services['regionsOf'] {
  const routes = routesFrom(regions);
  const nearestTo = ({ cf }: Request) =>
    routes.get(
      regions.length === 1 ? regions[0].name : nearestRegion(regions, (cf ?? {}) as RequestOrigin).name,
    );
  const isByClient = regions.some(({ serves = [] }) => serves.some((place) => !place.startsWith('colo:')));
  let nearest: Regions | undefined;
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  return (request) => {
    if (!request) return nearest ?? routes.get(regions[0].name);
    const played = isDevelopment ? request.headers.get('X-Weir-Region') : null;
    if (played !== null) return routes.get(played);
    if (isByClient) return nearestTo(request);
    // `abs`, because a clock that was put back must not stop the isolate from looking.
    if (Math.abs(now() - lookedAtMs) >= LOOK_EVERY_MS || !nearest) {
      nearest = nearestTo(request);
      lookedAtMs = now();
    }
    return nearest;
  };
}
