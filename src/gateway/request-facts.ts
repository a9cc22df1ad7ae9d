// Facts about a request that rules may count by, beyond its path, method and caller. Each is computed when a rule asks.

import type { RequestFacts } from '../core/matching/counted-by.ts';
import { hostOf } from '../core/matching/origin-routes.ts';
import { nearestRegion, type RequestOrigin, routesFrom, type ServingPlace } from '../core/regions/nearest.ts';
import { isRecent } from '../core/time.ts';
import type { ClientRequest } from '../http/client-request.ts';
import type { LimiterRegion, Regions } from '../limiter/region-calls.ts';
import type { Services } from './services.ts';

/** The functions are made once, because every request has facts. */
export const factsOf = (request: ClientRequest): RequestFacts & Held => ({ request, host, header, place });

interface Held {
  readonly request: ClientRequest;
}

function host(this: Held): string {
  return hostOf(this.request.url);
}

function header(this: Held, name: string): string | null {
  return this.request.headers.get(name);
}

function place(this: Held, kind: 'country' | 'asn' | 'colo'): string {
  const { [kind]: value } = (this.request.raw.cf ?? {}) as Readonly<Record<string, unknown>>;
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

// The regions of a request, nearest first.

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
    if (!nearest || !isRecent(lookedAtMs, now(), LOOK_EVERY_MS)) {
      nearest = nearestTo(request);
      lookedAtMs = now();
    }
    return nearest;
  };
}
