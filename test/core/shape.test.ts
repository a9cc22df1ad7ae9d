// Reading data from outside: accepts good values, and names what is wrong with bad ones.
import { describe, expect, it } from 'vitest';
import * as shape from '../../src/core/shape.ts';

function read<T>(reader: shape.Shape<T>, value: unknown) {
  const errors: shape.FieldError[] = [];
  return { value: reader(value, 'at', errors), errors };
}

const place = shape.strictObject({
  name: shape.matching(/^[a-z]+$/, 'small letters'),
  height: shape.withDefault(shape.numberFrom(0, 9), 5),
  isOn: shape.optional(shape.oneOf(['on', 'off'])),
  tags: shape.optional(shape.listOf(shape.text, 1)),
});

describe('a shape', () => {
  it('returns valid fields with defaults, and leaves out missing ones', () => {
    expect(read(place, { name: 'a' })).toEqual({ value: { name: 'a', height: 5 }, errors: [] });
    expect(read(shape.object({ id: shape.text }), { id: 'x', more: 1 }).value).toEqual({ id: 'x' });
  });

  it.each([
    [undefined, [{ pointer: 'at', detail: 'is missing' }]],
    [null, [{ pointer: 'at', detail: 'must be an object, not null' }]],
    [[], [{ pointer: 'at', detail: 'must be an object, not a list' }]],
    [{}, [{ pointer: 'at/name', detail: 'is missing' }]],
    [{ name: 7 }, [{ pointer: 'at/name', detail: 'must be text, not a number' }]],
    [{ name: 'A' }, [{ pointer: 'at/name', detail: 'must be small letters, not "A"' }]],
    [
      { name: 'A'.repeat(16) },
      [{ pointer: 'at/name', detail: 'must be small letters, not a text of 16 characters' }],
    ],
    [{ name: 'a', isOn: 'yes' }, [{ pointer: 'at/isOn', detail: 'must be "on" or "off", not "yes"' }]],
    [
      { name: 'a', height: '5' },
      [{ pointer: 'at/height', detail: 'must be a number, not a text of 1 character' }],
    ],
    [
      { name: 'a', height: Number.POSITIVE_INFINITY },
      [{ pointer: 'at/height', detail: 'must be a number, not Infinity' }],
    ],
    [{ name: 'a', height: -1 }, [{ pointer: 'at/height', detail: 'must be from 0 to 9, not -1' }]],
    [{ name: 'a', height: 10 }, [{ pointer: 'at/height', detail: 'must be from 0 to 9, not 10' }]],
    [{ name: 'a', tags: 'x' }, [{ pointer: 'at/tags', detail: 'must be a list, not a text of 1 character' }]],
    [{ name: 'a', tags: [] }, [{ pointer: 'at/tags/0', detail: 'is missing' }]],
    [{ name: 'a', tags: ['x', 1] }, [{ pointer: 'at/tags/1', detail: 'must be text, not a number' }]],
    [
      { name: 'a', x: 1, y: 2 },
      [
        { pointer: 'at/x', detail: 'is not a field' },
        { pointer: 'at/y', detail: 'is not a field' },
      ],
    ],
    [{ name: 'a', ['z'.repeat(101)]: 1 }, [{ pointer: `at/${'z'.repeat(99)}…`, detail: 'is not a field' }]],
    [
      { name: 'A', tags: [1], x: 1 },
      [
        { pointer: 'at/name', detail: 'must be small letters, not "A"' },
        { pointer: 'at/tags/0', detail: 'must be text, not a number' },
        { pointer: 'at/x', detail: 'is not a field' },
      ],
    ],
  ])('names every problem of %j', (value, errors) => {
    expect(read(place, value)).toEqual({ value: undefined, errors });
  });

  it('does not take inherited properties for fields', () => {
    expect(read(place, JSON.parse('{"name":"a","constructor":1}')).errors).toEqual([
      { pointer: 'at/constructor', detail: 'is not a field' },
    ]);
  });

  it('reads records with any names', () => {
    expect(read(shape.recordOf(shape.text), { a: 'x' }).value).toEqual({ a: 'x' });
    expect(read(shape.recordOf(shape.text), { a: 1 }).errors).toEqual([
      { pointer: 'at/a', detail: 'must be text, not a number' },
    ]);
    expect(read(shape.recordOf(shape.text), []).value).toBeUndefined();
  });

  it.each([
    ['https://a.test/x', 'https://a.test/x'],
    [' HTTPS://a.test ', 'HTTPS://a.test'],
    ['https:a.test', undefined],
    ['https://', undefined],
    [7, undefined],
  ])('reads %j as the URL %j', (value, url) => {
    expect(read(shape.url(/^https:\/\//i, 'an https URL'), value).value).toBe(url);
  });
});
