import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalPath } from '../../src/core/matching/path.ts';
import { rounds } from '../rounds.ts';

const pathOf = (raw: string) => {
  const result = canonicalPath(raw);
  return result.ok ? result.path : `refused: ${result.reason}`;
};
const asRequested = (path: string) => canonicalPath(new URL(`http://weir${path}`).pathname);

describe('canonicalPath', () => {
  it.each([
    ['/', '/'],
    ['', '/'],
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
    ['/a/b/..', '/a/'],
  ])('writes %s as %s for the origin', (raw, path) => expect(pathOf(raw)).toBe(path));

  it.each(['/a%3Ab', '/a%40b', '/a%21%24%26%27%28%29%2A%2B%2C%3D%3B', '/a;x=1/;y', '/A', '/a%20', '/%2561'])(
    'leaves %s as it was sent',
    (raw) => expect(pathOf(raw)).toBe(raw),
  );
});

// Pieces that interact with each other, in any order.
const piece = fc.constantFrom(
  ...[
    '/',
    '//',
    'a',
    'B',
    '.',
    '..',
    '%61',
    '%2e',
    '%c3%a9',
    '%C3%89',
    'e%CC%81',
    ';x=1',
    ';',
    '%3B',
    '~',
    '%25',
  ],
  ...[
    '%252e',
    '%2561',
    '%20',
    '*',
    '%2A',
    ':',
    '%3a',
    '{}',
    '%7B',
    '%EF%BC%8E',
    '%CD%BE',
    '|',
    '%2525',
    '%C0',
    'ß',
  ],
);
const pieces = fc.array(piece, { maxLength: 10 }).map((all) => `/${all.join('')}`);
const anyPath = fc.oneof(
  pieces,
  fc.string({ unit: 'binary' }).map((text) => `/${text.replace(/[?#]/g, '')}`),
  fc.webPath().map((path) => path || '/'),
);

describe('for any input', () => {
  it('a canonical path is its own canonical form, and passes the URL parser unchanged', () => {
    fc.assert(
      fc.property(anyPath, (path) => {
        const once = asRequested(path);
        if (!once.ok) return;
        expect(canonicalPath(once.path)).toEqual(once);
        expect(new URL(`http://origin${once.path}`).pathname).toBe(once.path);
      }),
      { numRuns: rounds(1_000) },
    );
  });

  it('canonicalPath never throws, and never returns an invalid path', () => {
    fc.assert(
      fc.property(fc.oneof(anyPath, fc.string({ unit: 'binary' })), (raw) => {
        const result = canonicalPath(raw);
        if (result.ok) expect(`${result.path}\n${result.matchPath}`).toMatch(/^\/[^\s\\]*\n\/[^\s\\A-Z;*]*$/);
      }),
      { numRuns: rounds(1_000) },
    );
  });
});
