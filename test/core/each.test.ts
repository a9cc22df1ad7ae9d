import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mapStable } from '../../src/core/map-stable.ts';

test('mapStable does what map does', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer(), { nil: undefined }), { maxLength: 5 }), (list) => {
      const toOther = (one: number | undefined, i: number) => [one, i];
      expect(mapStable(list, toOther)).toEqual(list.map(toOther));
    }),
  );
});
