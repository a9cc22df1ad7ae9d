// Which route takes a request, and which part of its path the origin gets.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  headerProblem,
  hostProblem,
  isOwnHost,
  isPrefixOf,
  normalizeHost,
  parsePrefix,
} from '../../src/authoring/route-schema.ts';
import {
  compileOriginRoutes,
  hostOf,
  type OriginRoute,
  ROUTE_DEFAULTS,
  strip,
} from '../../src/core/matching/origin-routes.ts';
import { canonicalPath } from '../../src/core/matching/path.ts';

const routeAt = (host: string, prefix: string): OriginRoute => ({
  ...ROUTE_DEFAULTS,
  id: `${host}${prefix}`,
  name: `${host}${prefix}`,
  host,
  prefix,
  origin: 'pass',
});

const find = (places: readonly (readonly [string, string])[], host: string, matchPath: string) =>
  compileOriginRoutes(places.map(([of, prefix]) => routeAt(of, prefix)))?.find(host, matchPath)?.name;

describe('the route of a request', () => {
  const PLACES = [
    ['*', '/'],
    ['*', '/api'],
    ['*.example.com', '/'],
    ['*.eu.example.com', '/shop'],
    ['api.example.com', '/v1'],
    ['api.example.com', '/v1/admin'],
  ] as const;

  it.each([
    ['api.example.com', '/v1', 'api.example.com/v1'],
    ['api.example.com', '/v1/users', 'api.example.com/v1'],
    ['api.example.com', '/v1/admin/x', 'api.example.com/v1/admin'],
    ['api.example.com', '/v1/administrators', 'api.example.com/v1'],
    // The exact host has no route for this path. The next wider host has one.
    ['api.example.com', '/v2', '*.example.com/'],
    ['a.eu.example.com', '/shop/1', '*.eu.example.com/shop'],
    ['a.eu.example.com', '/', '*.example.com/'],
    ['deep.below.example.com', '/api', '*.example.com/'],
    // A wildcard stands for at least one label.
    ['example.com', '/api/x', '*/api'],
    ['badexample.com', '/', '*/'],
    ['', '/apis', '*/'],
    [`${'a.'.repeat(200)}example.com`, '/', '*/'],
  ])('%s%s goes to %s', (host, path, name) => expect(find(PLACES, host, path)).toBe(name));

  it('is undefined if no route fits', () => {
    expect(find([['api.example.com', '/v1']], 'api.example.com', '/')).toBeUndefined();
    expect(find([['api.example.com', '/']], 'other.example.com', '/')).toBeUndefined();
  });

  it('is not looked up if there are no routes', () => {
    expect(compileOriginRoutes([])).toBeUndefined();
    expect(compileOriginRoutes(undefined)).toBeUndefined();
  });

  it('is the one that a search through all routes finds, for any hosts and prefixes', () => {
    const label = fc.constantFrom('a', 'b', 'c');
    const host = fc.array(label, { minLength: 1, maxLength: 4 }).map((labels) => labels.join('.'));
    const pattern = fc.oneof(
      fc.constant('*'),
      host,
      host.map((name) => `*.${name}`),
    );
    const path = fc.array(label, { maxLength: 4 }).map((segments) => `/${segments.join('/')}`);
    const places = fc.uniqueArray(fc.tuple(pattern, path), {
      selector: ([of, at]) => of + at,
      maxLength: 12,
    });
    fc.assert(
      fc.property(places, host, path, (all, asked, matchPath) => {
        expect(find(all, asked, matchPath)).toBe(byLooking(all, asked, matchPath));
      }),
    );
  });
});

/** The definition: of all routes that fit, the narrowest host wins, and then the longest prefix. */
function byLooking(places: readonly (readonly [string, string])[], host: string, path: string) {
  const width = (of: string) => (of === host ? 1_000 : of === '*' ? 0 : of.length);
  const fits = ([of, prefix]: readonly [string, string]) =>
    (of === '*' || of === host || (of.startsWith('*.') && host.endsWith(of.slice(1)))) &&
    isPrefixOf(prefix, path);
  const [best] = places
    .filter(fits)
    .sort(([hostA, a], [hostB, b]) => width(hostB) - width(hostA) || b.length - a.length);
  return best?.join('');
}

describe('the host of a URL', () => {
  it.each([
    ['https://api.example.com/x', 'api.example.com'],
    ['https://API.Example.COM:8443/x', 'api.example.com'],
    ['http://example.com.?x', 'example.com'],
    ['http://example.com..', 'example.com'],
    ['http://EXAMPLE.com...:80/x', 'example.com'],
    ['http://user:word@example.com./x@y', 'example.com'],
    ['http://[::1]:8787/', '[::1]'],
    ['http://localhost:8787', 'localhost'],
  ])('%s is %s', (url, host) => expect(hostOf(url)).toBe(host));
});

describe('a host that people write', () => {
  it.each([
    ['API.Example.com', 'api.example.com'],
    [' example.com. ', 'example.com'],
    ['*.Example.com', '*.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['*', '*'],
  ])('%s is %s', (written, host) => {
    expect(normalizeHost(written)).toBe(host);
    expect(hostProblem(host)).toBeUndefined();
  });

  it.each([
    '',
    'https://x.com',
    'x.com/a',
    'x.com:80',
    '*x.com',
    'a.*.com',
    '*.*',
    'a b',
    'a..b',
    '-a.com',
    '[::1]',
  ])('"%s" is refused', (written) => expect(hostProblem(normalizeHost(written))).toContain('must be a host'));
});

describe('a resource of a route', () => {
  it.each([
    ['/*', '/'],
    ['/API/*', '/api'],
    ['/a//b/*', '/a/b'],
    ['/%61pi/*', '/api'],
  ])('%s is %s', (written, prefix) => expect(parsePrefix(written)).toEqual({ ok: true, prefix }));

  it.each(['', 'api/*', '/api', '/api*', '/a?b/*', '/{id}/*', '/_weir/*', '/_WEIR/x/*', '/a%2Fb/*'])(
    '"%s" is refused',
    (written) => expect(parsePrefix(written).ok).toBe(false),
  );
});

describe('the path that the origin gets', () => {
  it.each([
    ['/api/users', '/api', '/users'],
    ['/API/users/', '/api', '/users/'],
    ['/api', '/api', '/'],
    ['/api/', '/api', '/'],
    ['/a/b/c', '/a/b', '/c'],
    // The matcher does not see `;x`, because it is not one of the prefix's segments.
    ['/;x/api/users', '/api', '/users'],
    ['/%61pi/users', '/api', '/users'],
  ])('%s without %s is %s', (path, prefix, left) => expect(strip(path, prefix)).toBe(left));

  it('always matches the rest of the request path, however it is spelled', () => {
    const segment = fc.constantFrom('api', 'API', '%61pi', 'users', 'a;x', ';y', 'ä', '%C3%A4', '.x');
    const paths = fc.array(segment, { maxLength: 6 }).map((segments) => `/api/${segments.join('/')}`);
    fc.assert(
      fc.property(paths, (raw) => {
        const canonical = canonicalPath(raw);
        if (!canonical.ok) return;
        const left = canonicalPath(strip(canonical.path, '/api'));
        const expected = canonical.matchPath.slice('/api'.length) || '/';
        expect(left).toMatchObject({ ok: true, matchPath: expected });
      }),
    );
  });
});

describe('a route to its own host', () => {
  it.each([
    ['api.example.com', 'https://api.example.com', true],
    ['api.example.com', 'https://API.example.com/v2', true],
    ['*.example.com', 'https://origin.example.com', false],
    ['api.example.com', 'https://origin.example.com', false],
    ['*', 'https://api.example.com', false],
    ['localhost', 'http://localhost:8788', false],
    ['api.example.com', 'pass', false],
  ])('%s to %s: %s', (host, origin, isOwn) => expect(isOwnHost({ host, origin })).toBe(isOwn));
});

describe('a header that a route adds', () => {
  it.each([
    ['X-Tenant', 'acme'],
    ['Authorization', 'Basic abc='],
  ])('%s: %s is fine', (name, value) => expect(headerProblem(name, value)).toBeUndefined());

  it.each([
    ['X Tenant', 'x'],
    ['', 'x'],
    ['X-A', ''],
    ['X-A', 'a\nb'],
    ['X-A', ' a'],
    ['X-A', 'é'],
    ['Host', 'x'],
    ['Connection', 'close'],
    ['content-length', '1'],
    ['X-Weir-User', 'root'],
    ['X_Weir_User', 'root'],
    ['X-Forwarded-For', '1.1.1.1'],
    ['CF-Connecting-IP', '1.1.1.1'],
  ])('%s: %j is refused', (name, value) => expect(headerProblem(name, value)).toBeTypeOf('string'));
});
