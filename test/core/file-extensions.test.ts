import { expect, it } from 'vitest';
import { withoutExtension } from '../../src/core/matching/path.ts';

it.each([
  ['/login.json', '/login'],
  ['/a.tar.gz', '/a'],
  ['/a.b/c.json', '/a.b/c'],
  ['/v1.2.json', '/v1.2'],
  ['/.env.json', '/.env'],
  ['/a..json', undefined],
  ['/.well-known', undefined],
  ['/v1.2', undefined],
  ['/a.b/c', undefined],
  ['/a.abcdefghijk', undefined],
  ['/a.', undefined],
  ['/', undefined],
])('%s is %s without its extension', (path, bare) => {
  expect(withoutExtension(path)).toBe(bare);
});

// Work that grows with the square of the length would take hours here.
it.each([
  ['dots', '/'.padEnd(1_000_000, '.'), undefined],
  ['extensions', `/a${'.b'.repeat(500_000)}`, '/a'],
  ['extensions before something else', `/a${'.b'.repeat(500_000)}-`, undefined],
])('a path of a million characters of %s takes no longer than its length', (_, path, bare) => {
  expect(withoutExtension(path)).toBe(bare);
});
