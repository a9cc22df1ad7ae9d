import fc from 'fast-check';
import { expect, test } from 'vitest';
import { eachAs } from '../../src/core/each.ts';

test('eachAs does what map does', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer(), { nil: undefined }), { maxLength: 5 }), (list) => {
      const toOther = (one: number | undefined, i: number) => [one, i];
      expect(eachAs(list, toOther)).toEqual(list.map(toOther));
    }),
  );
});
