import { describe, expect, it } from 'vitest';
import { createCounter, type RuleFields } from '../../local/rules.ts';
import { POLICY } from '../../src/core/matching/compiled-rule.ts';

const policyOf = (fields: RuleFields): string =>
  createCounter({ name: 'note to self: this customer pays late', ...fields }).policy;

describe('the name of a limit that clients read', () => {
  it.each([
    ['/*', 'all-ip'],
    ['/', 'root-ip'],
    ['/sign-up', 'sign-up-ip'],
    ['/users/:id', 'users-id-ip'],
    ['/Users/{id}/', 'users-id-ip'],
    ['/users/*', 'users-all-ip'],
    ['/v1.2/a_b', 'v1.2-a_b-ip'],
    ['/caf\u00e9', 'caf-ip'],
    ['/%C3%A9', 'c3-a9-ip'],
    [`/${'x'.repeat(80)}`, `${'x'.repeat(48)}-ip`],
  ])('is made from the resource %s', (resource, policy) => {
    expect(policyOf({ resource })).toBe(policy);
    expect(policy).toMatch(POLICY);
  });

  it('tells scopes apart', () => {
    expect(policyOf({ scope: 'apiKey' })).toBe('all-key');
    expect(policyOf({ scope: 'global' })).toBe('all-global');
  });

  it('is the policy of the rule, if it has one', () => {
    expect(policyOf({ policy: 'search' })).toBe('search');
  });

  it.each([
    [1, '1s'],
    [90, '90s'],
    [120, '2m'],
    [3600, '1h'],
    [86_400, '1d'],
  ])('ends with the window of %d seconds, if the rule has several limits', (windowSeconds, end) => {
    expect(
      policyOf({
        limits: [
          { limit: 1, windowSeconds },
          { limit: 2, windowSeconds: 7 },
        ],
      }),
    ).toBe(`all-ip-${end}`);
  });
});
