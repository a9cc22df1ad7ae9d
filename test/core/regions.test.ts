import { describe, expect, it } from 'vitest';
import { nearestRegion, type Place } from '../../src/core/regions.ts';

type NamedPlace = Place & { readonly name: string };
const regions: readonly [NamedPlace, ...NamedPlace[]] = [
  { name: 'us', latitude: 39, longitude: -77 },
  { name: 'eu', latitude: 50.1, longitude: 8.7 },
  { name: 'ap', latitude: 1.35, longitude: 103.8 },
];

describe('nearestRegion', () => {
  it.each([
    ['Chicago', '41.9', '-87.6', 'us'],
    ['Lisbon', '38.7', '-9.1', 'eu'],
    ['Tokyo', '35.7', '139.7', 'ap'],
    ['Fiji, across the date line', '-18.1', '178.4', 'ap'],
  ])('sends %s to its region', (_place, latitude, longitude, name) => {
    expect(nearestRegion(regions, { latitude, longitude }).name).toBe(name);
  });

  it('goes by continent when there are no coordinates', () => {
    expect(nearestRegion(regions, { continent: 'AF' }).name).toBe('eu');
    expect(nearestRegion(regions, { continent: 'OC' }).name).toBe('ap');
    expect(nearestRegion(regions, { latitude: 'x', longitude: '999', continent: 'SA' }).name).toBe('us');
  });

  it('takes the first region when nothing is known', () => {
    expect(nearestRegion(regions, {}).name).toBe('us');
    expect(nearestRegion(regions, { continent: 'T1' }).name).toBe('us');
  });
});
