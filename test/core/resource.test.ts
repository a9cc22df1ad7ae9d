import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileResource } from '../../src/authoring/explain.ts';
import { canonicalPath } from '../../src/core/matching/path.ts';
import { resourceProblem, slotOf } from '../../src/core/matching/resource.ts';

describe('a resource', () => {
  it.each([
    ['/login', '/login', true],
    ['/Login/', '/login', true],
    ['//login', '/login', true],
    ['/login', '/login/x', false],
    ['/api/*', '/api', true],
    ['/API/*', '/api/users/7', true],
    ['/api/*', '/apiary', false],
    ['/*', '/', true],
    ['/*', '/anything/else', true],
    ['/', '/', true],
    ['/', '/x', false],
    ['/users/:id', '/users/7', true],
    ['/users/{id}', '/users/7', true],
    ['/users/:id', '/users', false],
    ['/users/:id', '/users//', false],
    ['/users/:id', '/users/7/orders', false],
    ['/users/:id/orders', '/users/7/orders', true],
    ['/users/:id/*', '/users/7', true],
    ['/users/:id/*', '/users/7/orders/8', true],
    ['/users/:id/*', '/users', false],
    ['/:a/:b', '/x/y', true],
    ['/v1/books:batch', '/v1/books:batch', true],
    ['/v1/books:batch', '/v1/books:other', false],
    ['/v1/books:batch', '/v1/booksx', false],
    ['/a.c', '/abc', false],
    ['/a;v=1/b', '/a/b', true],
    ['/a/./x/../b', '/a/b', true],
  ])('%s matches %s: %s', (resource, path, matches) => expect(compileResource(resource)(path)).toBe(matches));

  it.each(['/*', '/:any', '/{any}/*', '/:any/:other', '/:a/admin/*'])(
    '%s never matches a path of Weir',
    (resource) => {
      for (const path of ['/_weir', '/_weir/quota', '/_weir/admin/rules'])
        expect(compileResource(resource)(path)).toBe(false);
    },
  );

  it.each([
    ['login', 'must start with /'],
    ['', 'must start with /'],
    ['/a/*/b', 'may have a * only at its end, as in /api/* or /search*'],
    ['/a/*/*', 'may have a * only at its end, as in /api/* or /search*'],
    ['/a/:id*', 'may have a * only after a / or after the beginning of a name, as in /search*'],
    ['/a..*', 'may have a * only after a / or after the beginning of a name, as in /search*'],
    ['*', 'must start with /'],
    ['/a%2Fb', '%2F is not allowed in a path'],
    ['/a%', 'a % must be followed by two hexadecimal digits'],
    ['/a\nb', '%0A is not allowed in a path'],
    ['/a?b=1', 'is a path: it has no ? and no #'],
    ['/a#b', 'is a path: it has no ? and no #'],
    ['/_weir/health', 'is under /_weir, which rules do not apply to'],
    ['/_WEIR/*', 'is under /_weir, which rules do not apply to'],
    ['/_weir/:any', 'is under /_weir, which rules do not apply to'],
    ['/users/:', 'has a parameter without a name in ":"'],
    ['/users/{}', 'has a parameter without a name in "{}"'],
    ['/users/:id?', 'has ":id?": a parameter cannot be optional: write two rules'],
    ['/users/{id?}', 'has "{id?}": a parameter cannot be optional: write two rules'],
    ['/users/:id{[0-9]+}', 'has ":id{[0-9]+}": a parameter has no pattern and is a whole segment'],
    ['/users/:id([0-9]+)', 'has ":id([0-9]+)": a parameter has no pattern and is a whole segment'],
    ['/users/{id:int}', 'has "{id:int}": a parameter has no pattern and is a whole segment'],
    ['/users/{a}{b}', 'has "{a}{b}": a parameter has no pattern and is a whole segment'],
    ['/users/:id.json', 'has ":id.json": a name has only letters, digits, _ and -'],
    ['/users/{id}.json', 'has { or } in "{id}.json": a parameter is a whole segment'],
    ['/users/x{id}', 'has { or } in "x{id}": a parameter is a whole segment'],
    ['/users/}', 'has { or } in "}": a parameter is a whole segment'],
    ['/users/:id/orders/{id}', 'has two parameters named id'],
    [`${'/a'.repeat(33)}`, 'has more than 32 segments'],
    [`${'/a'.repeat(33)}/*`, 'has more than 32 segments'],
  ])('%s could never match: %s', (resource, problem) => {
    expect(resourceProblem(resource)).toBe(problem);
    expect(compileResource(resource)('/users/7')).toBe(false);
  });

  it.each(['/*', '/', '/login', '/API/*', '/caf%C3%A9', '/v1/books:batch', '/:_weir', '/a'.repeat(32)])(
    '%s is fine',
    (resource) => expect(resourceProblem(resource)).toBeUndefined(),
  );

  it.each([
    '/café',
    '/a b',
    '/quote"',
    '/caret^',
    '/back`tick',
    '/<tag>',
    '/a|b',
    '/[x]',
    '/%7Bid%7D',
    "/it's",
    '/~me',
    '/💧',
  ])('%s matches a request for that path, as a URL spells it', (resource) => {
    const canonical = canonicalPath(new URL(resource, 'http://origin').pathname);
    expect(canonical.ok && compileResource(resource)(canonical.matchPath)).toBe(true);
  });

  it('that is a plain path matches exactly the requests that are in its slot', () => {
    const segment = fc.constantFrom('a', 'A', 'b', '.', '..', '', ';x', 'a;y=1', '%61', 'é', '%C3%A9', '...');
    const path = fc.array(segment, { maxLength: 4 }).map((segments) => `/${segments.join('/')}`);
    fc.assert(
      fc.property(path, path, (resource, asked) => {
        const canonical = canonicalPath(new URL(`http://origin${asked}`).pathname);
        const matches = canonical.ok && compileResource(resource)(canonical.matchPath);
        expect(matches).toBe(slotOf(resource) === slotOf(asked));
      }),
    );
  });
});

describe('slotOf', () => {
  it.each([
    ['/users/:id', '/users/{}'],
    ['/Users/{name}/', '/users/{}'],
    ['/users/:id/*', '/users/{}/*'],
    ['//API//*', '/api/*'],
    ['/*', '/*'],
    ['/', '/'],
    ['/a/b', '/a/b'],
  ])('%s is in slot %s', (resource, slot) => expect(slotOf(resource)).toBe(slot));

  it('keeps a path and the prefix of the same path apart', () => {
    expect(slotOf('/api')).not.toBe(slotOf('/api/*'));
    expect(slotOf('/')).not.toBe(slotOf('/*'));
  });
});
