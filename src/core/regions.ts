// Which region serves a request: the nearest one by great-circle distance.

export interface Place {
  readonly latitude: number;
  readonly longitude: number;
}

/** What Cloudflare says about where a request came from; any of it may be missing. */
export interface RequestOrigin {
  readonly latitude?: string | undefined;
  readonly longitude?: string | undefined;
  readonly continent?: string | undefined;
}

/** A point in the middle of where people live, for requests that come without coordinates. */
const CONTINENTS: Readonly<Record<string, Place>> = {
  AF: { latitude: 4, longitude: 22 },
  AN: { latitude: -75, longitude: 0 },
  AS: { latitude: 25, longitude: 100 },
  EU: { latitude: 50, longitude: 12 },
  NA: { latitude: 39, longitude: -92 },
  OC: { latitude: -30, longitude: 145 },
  SA: { latitude: -17, longitude: -57 },
};

/** The nearest of `regions`; the first one listed if the request's place is unknown or two are equally near. */
export function nearestRegion<R extends Place>(regions: readonly [R, ...R[]], origin: RequestOrigin): R {
  const place = placeOf(origin);
  if (!place) return regions[0];
  return regions.reduce((best, region) => (distance(region, place) < distance(best, place) ? region : best));
}

function placeOf({ latitude, longitude, continent }: RequestOrigin): Place | undefined {
  const place = { latitude: Number(latitude), longitude: Number(longitude) };
  if (latitude && longitude && isOnEarth(place)) return place;
  return continent === undefined ? undefined : CONTINENTS[continent];
}

function isOnEarth({ latitude, longitude }: Place): boolean {
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180;
}

/** Haversine: only compared, so the radius and the final arcsine are left out. */
function distance(a: Place, b: Place): number {
  const halfLatitude = Math.sin(radians(b.latitude - a.latitude) / 2);
  const halfLongitude = Math.sin(radians(b.longitude - a.longitude) / 2);
  return (
    halfLatitude ** 2 + Math.cos(radians(a.latitude)) * Math.cos(radians(b.latitude)) * halfLongitude ** 2
  );
}

const radians = (degrees: number) => (degrees * Math.PI) / 180;
