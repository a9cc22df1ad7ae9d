import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalPath } from '../../src/core/canonical-path.ts';

const pathOf = (raw: string) => {
  const result = canonicalPath(raw);
  return result.ok ? result.path : `refused: ${result.reason}`;
};
const matchPathOf = (raw: string) => {
  const result = canonicalPath(raw);
  return result.ok ? result.matchPath : `refused: ${result.reason}`;
};

describe('canonicalPath', () => {
  it.each([
    ['/', '/'],
    ['/users/7', '/users/7'],
    ['//users///7', '/users/7'],
    ['/users/./7', '/users/7'],
    ['/users/x/../7', '/users/7'],
    ['/../../users', '/users'],
    ['/%75sers/%37', '/users/7'],
    ['/users/%2e%2E/admin', '/admin'],
    ['/caf%c3%a9', '/caf%C3%A9'],
    ['/users/', '/users/'],
    ['/users/.', '/users/'],
    ['/users/..', '/'],
  ])('writes %s as %s', (raw, path) => expect(pathOf(raw)).toBe(path));

  it.each([
    ['/Users/7/', '/users/7'],
    ['/users;v=1/7', '/users/7'],
    ['/', '/'],
  ])('matches %s as %s', (raw, path) => expect(matchPathOf(raw)).toBe(path));

  it.each(['/a%2Fb', '/a%5cb', '/a%00', '/a%0d%0a', '/a%7f', '/a\\b', '/100%', '/a%2', '/a%zz'])(
    'refuses %s',
    (raw) => expect(pathOf(raw)).toMatch(/^refused/),
  );

  it('leaves a canonical path as it is, whatever the input was', () => {
    const piece = fc.constantFrom('/', 'a', 'B', '.', '..', '%61', '%2e', '%c3%a9', ';x=1', '~');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const once = pathOf(`/${pieces.join('')}`);
        if (!once.startsWith('refused')) expect(pathOf(once)).toBe(once);
      }),
      { numRuns: 2_000 },
    );
  });
});
