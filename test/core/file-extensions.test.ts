import { expect, it } from 'vitest';
import { withoutExtensions } from '../../src/core/matching/path.ts';

it.each([
  ['/login.json', ['/login']],
  // Rails reads any text after the dot as the wanted format, even an unknown one.
  ['/login.2', ['/login']],
  ['/login.abcdefghijklmnop', ['/login']],
  ['/login.x-y', ['/login']],
  ['/login.%e2%82%ac', ['/login']],
  ['/a.b/c.json', ['/a.b/c']],
  // Some origins take off the last extension only, others all of them.
  ['/a.tar.gz', ['/a.tar', '/a']],
  ['/v1.2.json', ['/v1.2', '/v1']],
  ['/a.b.c.d', ['/a.b.c', '/a']],
  ['/.env.json', ['/.env']],
  ['/a..json', []],
  ['/.well-known', []],
  ['/a.b/c', []],
  ['/a.', []],
  ['/', []],
])('%s is %j without extensions', (path, bare) => {
  expect(withoutExtensions(path)).toEqual(bare);
});

// Work that grows with the square of the length would take hours here.
it.each([
  ['dots', '/'.padEnd(1_000_000, '.'), undefined],
  ['extensions', `/a${'.b'.repeat(500_000)}`, '/a'],
  ['extensions before something else', `/a${'.b'.repeat(500_000)}/`, undefined],
])('a path of a million characters of %s takes no longer than its length', (_, path, bare) => {
  expect(withoutExtensions(path).at(-1)).toBe(bare);
});
