import { describe, expect, it } from 'vitest';
import { compileResource, resourceProblem } from '../../src/core/resource.ts';

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
  ])('%s, asked about %s: %s', (resource, path, matches) =>
    expect(compileResource(resource)(path)).toBe(matches),
  );

  it.each([
    ['login', 'must start with /'],
    ['/a/*/b', 'may have a * only at its end, as in /api/*'],
    ['/a*', 'may have a * only at its end, as in /api/*'],
    ['/a%2Fb', '%2F is not allowed in a path'],
    ['/_weir/health', 'is under /_weir, which rules do not apply to'],
    ['/_WEIR/*', 'is under /_weir, which rules do not apply to'],
  ])('%s could never match: %s', (resource, problem) => expect(resourceProblem(resource)).toBe(problem));

  it.each(['/*', '/', '/login', '/API/*', '/caf%C3%A9'])('%s is fine', (resource) =>
    expect(resourceProblem(resource)).toBeUndefined(),
  );
});
