import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  isServesCode,
  nearestRegion,
  type RequestOrigin,
  routesFrom,
  type ServingPlace,
} from '../../src/core/regions/nearest.ts';

type Region = ServingPlace & { readonly name: string };
type Regions = readonly [Region, ...Region[]];

const us = { name: 'us', latitude: 39, longitude: -77 };
const eu = { name: 'eu', latitude: 50.1, longitude: 8.7 };
const ap = { name: 'ap', latitude: 1.35, longitude: 103.8 };
const regions: Regions = [us, eu, ap];

const BERLIN = { latitude: '52.5', longitude: '13.4', country: 'DE', continent: 'EU', colo: 'TXL' };

const place = {
  latitude: fc.double({ min: -90, max: 90, noNaN: true }),
  longitude: fc.double({ min: -180, max: 180, noNaN: true }),
};
const CODES = ['colo:FRA', 'colo:TXL', 'country:DE', 'country:US', 'continent:EU', 'continent:NA'];

const anyRegions = fc
  .array(fc.record({ ...place, serves: fc.option(fc.subarray(CODES), { nil: undefined }) }), { minLength: 1 })
  .map((places) => places.map((one, i) => ({ ...one, name: `region${i}` })) as [Region, ...Region[]]);

const anyOrigin: fc.Arbitrary<RequestOrigin> = fc.record(
  {
    latitude: place.latitude.map(String),
    longitude: place.longitude.map(String),
    colo: fc.constantFrom('FRA', 'TXL', 'DFW'),
    country: fc.constantFrom('DE', 'US', 'FJ', 'T1'),
    continent: fc.constantFrom('EU', 'NA', 'OC'),
  },
  { requiredKeys: [] },
);

/** Computes the angle between two directions from the centre of the earth: another formula than the one under test. */
function angle(a: ServingPlace, b: ServingPlace): number {
  const [x, y] = [a, b].map(({ latitude, longitude }) => {
    const [phi, lambda] = [(latitude * Math.PI) / 180, (longitude * Math.PI) / 180];
    return [Math.cos(phi) * Math.cos(lambda), Math.cos(phi) * Math.sin(lambda), Math.sin(phi)];
  }) as [number[], number[]];
  return 2 * Math.asin(Math.min(1, Math.hypot(...x.map((value, i) => value - (y[i] ?? 0))) / 2));
}

/** How much the two formulas may differ, near the far side of the earth. */
const ROUNDING = 1e-6;

describe('nearestRegion', () => {
  it.each([
    ['Chicago', '41.9', '-87.6', 'us'],
    ['Lisbon', '38.7', '-9.1', 'eu'],
    ['Tokyo', '35.7', '139.7', 'ap'],
    ['Fiji, across the date line', '-18.1', '178.4', 'ap'],
  ])('sends %s to its region', (_place, latitude, longitude, name) => {
    expect(nearestRegion(regions, { latitude, longitude }).name).toBe(name);
  });

  it('returns the region at the smallest distance', () => {
    fc.assert(
      fc.property(anyRegions, fc.record(place), (all, at) => {
        const origin = { latitude: String(at.latitude), longitude: String(at.longitude) };
        const nearest = angle(nearestRegion(all, origin), at);
        for (const region of all) expect(nearest).toBeLessThanOrEqual(angle(region, at) + ROUNDING);
      }),
    );
  });

  it('takes the first listed of two regions that are equally near', () => {
    const west = { name: 'west', latitude: 10, longitude: -20 };
    const east = { name: 'east', latitude: 10, longitude: 20 };
    const origin = { latitude: '10', longitude: '0' };
    expect(nearestRegion([west, east], origin)).toBe(west);
    expect(nearestRegion([east, west], origin)).toBe(east);
    const twin = { ...us, name: 'twin' };
    expect(nearestRegion([eu, twin, us], { latitude: '41.9', longitude: '-87.6' })).toBe(twin);
  });

  it('sends an origin to the same region every time, even in another isolate', () => {
    fc.assert(
      fc.property(anyRegions, anyOrigin, (all, origin) => {
        const again = nearestRegion(structuredClone(all) as Regions, { ...origin });
        expect(again.name).toBe(nearestRegion(all, origin).name);
      }),
    );
  });

  it('uses the country when there are no coordinates', () => {
    expect(nearestRegion(regions, { country: 'IN' }).name).toBe('ap');
    expect(nearestRegion(regions, { country: 'BR', continent: 'SA' }).name).toBe('us');
    expect(nearestRegion(regions, { latitude: '', longitude: '', country: 'NG' }).name).toBe('eu');
  });

  it('trusts a country more than its continent, and coordinates more than both', () => {
    const saudi = { country: 'SA', continent: 'AS' };
    expect(nearestRegion(regions, { continent: 'AS' }).name).toBe('ap');
    expect(nearestRegion(regions, saudi).name).toBe('eu');
    expect(nearestRegion(regions, { ...saudi, latitude: '41.9', longitude: '-87.6' }).name).toBe('us');
  });

  it('uses the continent when there is nothing better', () => {
    expect(nearestRegion(regions, { continent: 'AF' }).name).toBe('eu');
    expect(nearestRegion(regions, { continent: 'OC', country: 'FJ' }).name).toBe('ap');
    expect(nearestRegion(regions, { latitude: 'x', longitude: '999', continent: 'SA' }).name).toBe('us');
  });

  it('takes the first region when nothing is known', () => {
    const nowhere = [{}, { continent: 'T1' }, { country: 'T1' }, { country: 'constructor' }, { colo: 'FRA' }];
    for (const origin of nowhere) expect(nearestRegion([ap, eu, us], origin).name).toBe('ap');
  });
});

describe('a region with serves', () => {
  const serving = (name: string, ...serves: string[]): Region => ({ ...ap, name, serves });

  it('serves the places that it names at any distance', () => {
    for (const code of ['colo:TXL', 'country:DE', 'continent:EU'])
      expect(nearestRegion([us, eu, serving('far', code)], BERLIN).name).toBe('far');
    expect(nearestRegion([us, eu, serving('far', 'colo:FRA', 'country:FR')], BERLIN).name).toBe('eu');
  });

  it('comes after a region that names the place more exactly', () => {
    const [colo, country] = [serving('colo', 'colo:TXL'), serving('country', 'country:DE')];
    const continent = serving('continent', 'continent:EU');
    expect(nearestRegion([continent, country, colo], BERLIN)).toBe(colo);
    expect(nearestRegion([continent, country], BERLIN)).toBe(country);
    expect(nearestRegion([continent, eu], BERLIN)).toBe(continent);
  });

  it('comes after a region that is listed before it and names the same place', () => {
    const [first, second] = [serving('first', 'country:DE'), serving('second', 'country:DE')];
    expect(nearestRegion([us, first, second], BERLIN)).toBe(first);
    expect(nearestRegion([us, second, first], BERLIN)).toBe(second);
  });

  it('does not take a country for a continent with the same letters', () => {
    const saudi = { country: 'SA', continent: 'AS' };
    expect(nearestRegion([eu, serving('south-america', 'continent:SA')], saudi).name).toBe('eu');
  });
});

describe('isServesCode', () => {
  it.each(['colo:FRA', 'country:DE', 'country:T1', 'continent:EU', 'continent:SA'])('takes %s', (code) => {
    expect(isServesCode(code)).toBe(true);
  });

  it.each([
    'FRA',
    'DE',
    'colo:fra',
    'colo:FR',
    'colo:FRAN',
    'country:DEU',
    'country:de',
    'continent:XX',
    'continent:EUR',
    'region:EU',
    'colo:undefined',
    'colo:FRA ',
    'colo:FRA\n',
    '',
  ])('refuses %j', (code) => {
    expect(isServesCode(code)).toBe(false);
  });
});

describe('routesFrom', () => {
  it('starts at the region itself and goes on with the nearest to it', () => {
    const names = [...routesFrom(regions)].map(([name, route]) => [name, route.map((region) => region.name)]);
    expect(names).toEqual([
      ['us', ['us', 'eu', 'ap']],
      ['eu', ['eu', 'us', 'ap']],
      ['ap', ['ap', 'eu', 'us']],
    ]);
  });

  it('starts at the region itself even if another is at the same place, and keeps the order of equals', () => {
    const twins: Regions = [us, { ...us, name: 'twin' }, { ...us, name: 'third' }];
    expect(routesFrom(twins).get('twin')).toEqual([twins[1], twins[0], twins[2]]);
  });

  it('has one route for each region, through all regions, from near to far', () => {
    fc.assert(
      fc.property(anyRegions, (all) => {
        const routes = routesFrom(all);
        expect([...routes.keys()]).toEqual(all.map(({ name }) => name));
        for (const [name, [owner, ...others]] of routes) {
          expect(owner.name).toBe(name);
          expect(new Set([owner, ...others])).toEqual(new Set(all));
          const angles = others.map((other) => angle(owner, other));
          for (const [i, next] of angles.slice(1).entries())
            expect(next).toBeGreaterThanOrEqual((angles[i] ?? 0) - ROUNDING);
        }
      }),
    );
  });
});
