// All limits of a caller on any path: the same rules that its requests would meet one by one.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import type { Caller } from '../../src/core/matching/caller.ts';
import { SCOPES, type Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot, MAX_LIMITS, type PublishedRule } from '../../src/core/matching/snapshot.ts';
import { rounds } from '../rounds.ts';

const TIERS: Tier[] = [
  { name: 'free', limits: { requests: 100 }, isDefault: true },
  { name: 'enterprise', limits: { requests: null }, isDefault: false },
];
const CALLER: Caller = { ip: '192.0.2.1', address: '192.0.2.1', userId: 'u1' };

let lastId = 0;
const rule = (fields: RuleFields): PublishedRule => {
  lastId += 1;
  const id = String(lastId).padStart(6, '0');
  return createRule({ id, name: `rule ${id}`, ordinal: lastId, ...fields });
};

const snapshotOf = (rules: readonly PublishedRule[]) =>
  compileSnapshot('v1', { rules, tiers: TIERS, lists: [] });
const namesFor = (rules: readonly PublishedRule[], caller: Partial<Caller> = {}) =>
  snapshotOf(rules)
    .limitsOf({ ...CALLER, ...caller }, 0)
    .map((match) => match.rule.name);

describe('the limits of a caller', () => {
  it('are those of all resources and scopes, by the priority of their slots', () => {
    const rules = [
      rule({ name: 'a', resource: '/a', priority: 3 }),
      rule({ name: 'b', resource: '/b/:id', scope: 'user', priority: 1 }),
      rule({ name: 'all', scope: 'global', priority: 2 }),
    ];
    expect(namesFor(rules)).toEqual(['b', 'all', 'a']);
    expect(namesFor(rules.toReversed())).toEqual(['b', 'all', 'a']);
  });

  it('include only those rules of a slot that win it for some method', () => {
    const rules = [
      rule({ name: 'posts', methods: ['POST'], priority: 1 }),
      rule({ name: 'posts again', methods: ['POST'], priority: 2 }),
      rule({ name: 'gets', methods: ['GET'], priority: 3 }),
      rule({ name: 'heads', methods: ['HEAD'], priority: 4 }),
      rule({ name: 'the rest', priority: 5 }),
      rule({ name: 'nothing left', methods: ['PUT'], priority: 6 }),
    ];
    expect(namesFor(rules)).toEqual(['posts', 'gets', 'the rest']);
  });

  it('include an override instead of the rule for everybody', () => {
    const rules = [
      rule({ name: 'for u1', scope: 'user', subjects: ['u1'] }),
      rule({ name: 'for u2', scope: 'user', subjects: ['u2'] }),
      rule({ name: 'everybody', scope: 'user' }),
      rule({ name: 'enterprise', resource: '/x', tiers: ['enterprise'] }),
    ];
    expect(namesFor(rules)).toEqual(['for u1']);
    expect(namesFor(rules, { userId: 'u3' })).toEqual(['everybody']);
    expect(namesFor(rules, { userId: undefined })).toEqual(['everybody']);
    expect(namesFor(rules, { tier: 'enterprise' })).toEqual(['for u1', 'enterprise']);
  });

  it('come from the caller’s tier, and an unlimited tier has none, even if there is another rule', () => {
    const rules = [
      rule({ name: 'by tier', limitName: 'requests', priority: 1 }),
      rule({ name: 'next', priority: 2 }),
    ];
    expect(snapshotOf(rules).limitsOf(CALLER, 0)).toMatchObject([{ rule: { name: 'by tier' }, limit: 100 }]);
    expect(namesFor(rules, { tier: 'enterprise' })).toEqual([]);
  });

  it('leave out rules that only log, which do not replace other rules', () => {
    const rules = [rule({ name: 'shadow', action: 'log', priority: 1 }), rule({ name: 'real', priority: 2 })];
    expect(namesFor(rules)).toEqual(['real']);
  });

  it('are bounded in number, and always the same', () => {
    const logging = Array.from({ length: 50 }, (_, i) => rule({ resource: `/l${i}`, action: 'log' }));
    const real = Array.from({ length: 1_000 }, (_, i) => rule({ resource: `/r${i}`, name: `r${i}` }));
    const first = real.slice(0, MAX_LIMITS).map(({ name }) => name);
    expect(namesFor([...logging, ...real])).toEqual(first);
    expect(namesFor([...real.toReversed(), ...logging])).toEqual(first);
  });
});

const someOf = (...values: string[]) => fc.subarray(values, { maxLength: 2 });
const RESOURCES = {
  '/*': '/far/away',
  '/': '/',
  '/a': '/a',
  '/a/*': '/a/far/away',
  '/:id': '/somebody',
  '/a/{id}': '/a/somebody',
  '/A/:name/*': '/a/somebody/far',
};
const METHODS = ['GET', 'HEAD', 'POST', 'PATCH'];

const ruleSet = fc.array(
  fc.record({
    resource: fc.constantFrom(...Object.keys(RESOURCES)),
    scope: fc.constantFrom(...SCOPES),
    methods: someOf('GET', 'HEAD', 'POST'),
    tiers: someOf('free', 'enterprise'),
    subjects: someOf('u1', '192.0.2.1'),
    priority: fc.integer({ min: 1, max: 3 }),
    limitName: fc.constantFrom(null, 'requests'),
    action: fc.constantFrom('reject', 'reject', 'log' as const),
  }),
  { minLength: 1, maxLength: 25, size: 'max' },
);
const anyCaller = fc.record({
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2'),
  address: fc.constant('192.0.2.1'),
  userId: fc.constantFrom('u1', 'u2', undefined),
  tier: fc.constantFrom('free', 'enterprise', undefined),
});

it('the limits of a caller are exactly those that requests of all methods to all resources meet', () => {
  fc.assert(
    fc.property(ruleSet, anyCaller, (fields, caller) => {
      const snapshot = snapshotOf(fields.map(rule));
      const met = new Map<string, number>();
      for (const matchPath of Object.values(RESOURCES))
        for (const method of METHODS)
          for (const { rule, limit } of snapshot.match({ matchPath, method, caller, nowMs: 0 }))
            if (rule.action !== 'log') met.set(rule.name, limit);
      const told = snapshot
        .limitsOf(caller, 0)
        .map(({ rule, limit }): [string, number] => [rule.name, limit]);
      expect(told.sort()).toEqual([...met].sort());
    }),
    { numRuns: rounds(500) },
  );
});
