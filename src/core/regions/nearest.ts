// Chooses the region of a request: one that claims the request by `serves`, else the nearest by great-circle distance.
// Also lists the neighbours of each region, nearest first.

export interface Place {
  readonly latitude: number;
  readonly longitude: number;
}

export interface ServingPlace extends Place {
  /** Requests that this region serves at any distance: `colo:FRA`, `country:DE`, `continent:EU`. */
  readonly serves?: readonly string[] | undefined;
}

/** The location of a request, as Cloudflare reports it. Every field may be missing. */
export interface RequestOrigin {
  readonly latitude?: string | undefined;
  readonly longitude?: string | undefined;
  readonly continent?: string | undefined;
  /** Two letters, or `T1` for Tor. */
  readonly country?: string | undefined;
  /** The Cloudflare data centre that took the request: the three letters of its airport. */
  readonly colo?: string | undefined;
}

const placesOf = (points: Readonly<Record<string, readonly [number, number]>>): ReadonlyMap<string, Place> =>
  new Map(Object.entries(points).map(([code, [latitude, longitude]]) => [code, { latitude, longitude }]));

/** A central point of the population, for requests without coordinates. */
const CONTINENTS = placesOf({
  AF: [4, 22],
  AN: [-75, 0],
  AS: [25, 100],
  EU: [50, 12],
  NA: [39, -92],
  OC: [-30, 145],
  SA: [-17, -57],
});

/** The same for countries with many people or networks, because the point of their continent is far from them. */
const COUNTRIES = placesOf({
  AE: [25, 55],
  AR: [-34, -60],
  AT: [48, 15],
  AU: [-34, 147],
  BD: [24, 90],
  BE: [51, 4],
  BR: [-20, -46],
  CA: [45, -78],
  CH: [47, 8],
  CL: [-33, -71],
  CN: [32, 114],
  CO: [5, -75],
  CZ: [50, 15],
  DE: [51, 9],
  DK: [56, 11],
  EG: [30, 31],
  ES: [40, -3],
  ET: [9, 39],
  FI: [61, 25],
  FR: [47, 3],
  GB: [52, -1],
  HK: [22, 114],
  ID: [-7, 109],
  IE: [53, -7],
  IL: [32, 35],
  IN: [23, 79],
  IR: [35, 51],
  IT: [43, 12],
  JP: [36, 138],
  KE: [-1, 37],
  KR: [37, 127],
  MX: [20, -100],
  MY: [3, 102],
  NG: [8, 6],
  NL: [52, 5],
  NO: [60, 10],
  NZ: [-39, 175],
  PE: [-11, -76],
  PH: [14, 121],
  PK: [31, 72],
  PL: [52, 19],
  PT: [40, -9],
  RO: [45, 26],
  RU: [56, 42],
  SA: [24, 45],
  SE: [59, 16],
  SG: [1, 104],
  TH: [14, 101],
  TR: [40, 32],
  TW: [24, 121],
  UA: [49, 32],
  US: [38, -92],
  VN: [16, 107],
  ZA: [-28, 28],
});

const SERVES_CODE = /^(colo:[A-Z]{3}|country:([A-Z]{2}|T1)|continent:(AF|AN|AS|EU|NA|OC|SA))$/;

/** Whether the text is a valid entry of `serves`. */
export const isServesCode = (text: string): boolean => SERVES_CODE.test(text);

/**
 * The region that names the request's colo, else its country, else its continent; else the nearest of `regions`. The
 * first one listed if several are equal, or if the location of the request is unknown.
 */
export function nearestRegion<R extends ServingPlace>(
  regions: readonly [R, ...R[]],
  origin: RequestOrigin,
): R {
  const serving = servingRegion(regions, origin);
  if (serving) return serving;
  const place = placeOf(origin);
  if (!place) return regions[0];
  return regions.reduce((best, region) => (distance(region, place) < distance(best, place) ? region : best));
}

/**
 * For each region by name: itself first, then the others, nearest to it first; of two equally near, the first listed.
 */
export function routesFrom<R extends Place & { readonly name: string }>(
  regions: readonly [R, ...R[]],
): ReadonlyMap<string, readonly [R, ...R[]]> {
  return new Map(regions.map((owner) => [owner.name, [owner, ...othersByDistance(owner, regions)]]));
}

/** The names of the other regions, nearest to that one first. */
export const neighboursIn = (
  routes: ReadonlyMap<string, readonly { readonly name: string }[]>,
  region: string,
): string[] => (routes.get(region) ?? []).slice(1).map(({ name }) => name);

function othersByDistance<R extends Place & { readonly name: string }>(owner: R, regions: readonly R[]): R[] {
  const others = regions.filter(({ name }) => name !== owner.name);
  return others.sort((a, b) => distance(a, owner) - distance(b, owner));
}

/** The most specific code wins, whatever the order of the regions. */
function servingRegion<R extends ServingPlace>(regions: readonly R[], origin: RequestOrigin): R | undefined {
  const { colo, country, continent } = origin;
  for (const code of [`colo:${colo}`, `country:${country}`, `continent:${continent}`]) {
    const serving = regions.find(({ serves }) => serves?.includes(code));
    if (serving) return serving;
  }
  return undefined;
}

function placeOf({ latitude, longitude, country = '', continent = '' }: RequestOrigin): Place | undefined {
  const place = { latitude: Number(latitude), longitude: Number(longitude) };
  if (latitude && longitude && isOnEarth(place)) return place;
  return COUNTRIES.get(country) ?? CONTINENTS.get(continent);
}

function isOnEarth({ latitude, longitude }: Place): boolean {
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180;
}

/** Haversine without the radius and the final arcsine, because distances are only compared. */
function distance(a: Place, b: Place): number {
  const halfLatitude = Math.sin(radians(b.latitude - a.latitude) / 2);
  const halfLongitude = Math.sin(radians(b.longitude - a.longitude) / 2);
  return (
    halfLatitude ** 2 + Math.cos(radians(a.latitude)) * Math.cos(radians(b.latitude)) * halfLongitude ** 2
  );
}

const radians = (degrees: number) => (degrees * Math.PI) / 180;
