// Reading data from outside: accepts good values, and names what is wrong with bad ones.
import { describe, expect, it } from 'vitest';
import * as shape from '../../src/core/shape.ts';

function read<T>(reader: shape.Shape<T>, value: unknown) {
  const problems: string[] = [];
  return { value: reader(value, 'at', problems), problems };
}

const place = shape.strictObject({
  name: shape.matching(/^[a-z]+$/, 'must be small letters'),
  height: shape.withDefault(shape.numberFrom(0, 9), 5),
  tags: shape.optional(shape.listOf(shape.text, 1)),
});

describe('a shape', () => {
  it('returns valid fields with defaults, and leaves out missing ones', () => {
    expect(read(place, { name: 'a' })).toEqual({ value: { name: 'a', height: 5 }, problems: [] });
    expect(read(shape.object({ id: shape.text }), { id: 'x', more: 1 }).value).toEqual({ id: 'x' });
  });

  it.each([
    [undefined, ['at: is missing']],
    [null, ['at: must be an object']],
    [[], ['at: must be an object']],
    [{}, ['at.name: is missing']],
    [{ name: 7 }, ['at.name: must be text']],
    [{ name: 'A' }, ['at.name: must be small letters']],
    [{ name: 'a', height: '5' }, ['at.height: must be a number']],
    [{ name: 'a', height: Number.POSITIVE_INFINITY }, ['at.height: must be a number']],
    [{ name: 'a', height: -1 }, ['at.height: Too small: expected number to be >=0']],
    [{ name: 'a', height: 10 }, ['at.height: Too big: expected number to be <=9']],
    [{ name: 'a', tags: 'x' }, ['at.tags: must be a list']],
    [{ name: 'a', tags: [] }, ['at.tags[0]: is missing']],
    [{ name: 'a', tags: ['x', 1] }, ['at.tags[1]: must be text']],
    [{ name: 'a', x: 1, y: 2 }, ['at: Unrecognized keys: "x", "y"']],
    [{ name: 'a', ['z'.repeat(101)]: 1 }, [`at: Unrecognized key: "${'z'.repeat(99)}…"`]],
    [
      { name: 'A', tags: [1], x: 1 },
      ['at.name: must be small letters', 'at.tags[0]: must be text', 'at: Unrecognized key: "x"'],
    ],
  ])('names every problem of %j', (value, problems) => {
    expect(read(place, value)).toEqual({ value: undefined, problems });
  });

  it('does not take inherited properties for fields', () => {
    expect(read(place, JSON.parse('{"name":"a","constructor":1}')).problems).toEqual([
      'at: Unrecognized key: "constructor"',
    ]);
  });

  it('reads records with any names', () => {
    expect(read(shape.recordOf(shape.text), { a: 'x' }).value).toEqual({ a: 'x' });
    expect(read(shape.recordOf(shape.text), { a: 1 }).problems).toEqual(['at.a: must be text']);
    expect(read(shape.recordOf(shape.text), []).value).toBeUndefined();
  });

  it.each([
    ['https://a.test/x', 'https://a.test/x'],
    [' HTTPS://a.test ', 'HTTPS://a.test'],
    ['https:a.test', undefined],
    ['https://', undefined],
    [7, undefined],
  ])('reads %j as the URL %j', (value, url) => {
    expect(read(shape.url(/^https:\/\//i, 'must be https'), value).value).toBe(url);
  });
});
