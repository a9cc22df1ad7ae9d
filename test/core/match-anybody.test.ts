// Rules that apply to every request from an address: they must apply to every caller there, with that limit.

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createRule } from '../../local/rules.ts';
import { EVERY_SCOPE, SCOPES, type Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot } from '../../src/core/matching/snapshot.ts';
import { rounds } from '../rounds.ts';

const IPS = ['192.0.2.1', '192.0.2.2'];
const TIERS: Tier[] = [
  { name: 'free', limits: { calls: 3 }, isDefault: true },
  { name: 'pro', limits: { calls: null }, isDefault: false },
];
const some = (...values: string[]) =>
  fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.subarray(values));

const ruleFields = fc.record({
  resource: fc.constantFrom('/*', '/a', '/a/*', '/:id'),
  scope: fc.constantFrom(...SCOPES),
  methods: some('GET', 'POST'),
  tiers: some('free', 'pro', 'gone'),
  tenants: fc.oneof({ weight: 9, arbitrary: fc.constant([]) }, fc.subarray(['t', 'gone'])),
  subjects: some(...IPS, 'u'),
  limit: fc.option(fc.integer({ min: 1, max: 9 })),
  limitName: fc.constantFrom(null, null, null, 'calls'),
  priority: fc.constantFrom(1, 2),
  action: fc.constantFrom('reject', 'reject', 'reject', 'reject', 'log', 'allow'),
  replaces: fc.constantFrom(false, false, false, false, true),
  percent: fc.oneof({ weight: 9, arbitrary: fc.constant(100) }, fc.constant(50)),
  validUntilMs: fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, fc.constantFrom(0, 1)),
  costs: fc.constantFrom([], [], [{ resource: '/a', cost: 2 }]),
} as const);
const rules = fc.array(ruleFields, { maxLength: 8 }).map((list) =>
  list.map((fields, i) =>
    createRule({
      ...{ ordinal: i, ...fields, id: String(i), name: String(i) },
      ...(fields.action === 'allow' && i % 2 === 0 && { scope: EVERY_SCOPE, subjects: [], percent: 100 }),
    }),
  ),
);
const caller = fc.record(
  {
    tier: fc.constantFrom('free', 'pro', 'gone'),
    userId: fc.constant('u'),
    apiKeyId: fc.constant('k'),
    tenantId: fc.constant('t'),
  },
  { requiredKeys: [] },
);

it('a rule that applies to anybody applies to each caller of that address, with the same limit', () => {
  let found = 0;
  fc.assert(
    fc.property(
      rules,
      caller,
      fc.constantFrom(...IPS),
      fc.constantFrom('/a', '/a/b', '/'),
      fc.constantFrom('GET', 'POST'),
      (list, who, ip, matchPath, method) => {
        const snapshot = compileSnapshot('v', { rules: list, tiers: TIERS, lists: [] });
        const from = { ip, address: ip };
        const anybody = snapshot.matchByIpOnly({ matchPath, method, caller: from, nowMs: 0 });
        const his = snapshot.match({ matchPath, method, caller: { ...from, ...who }, nowMs: 0 });
        found += anybody.length;
        for (const match of anybody) expect(his).toContainEqual(match);
        for (const { rule } of anybody) expect(rule.action).not.toBe('log');
      },
    ),
    { numRuns: rounds(4_000) },
  );
  expect(found).toBeGreaterThan(500);
});

it('no rule applies to anybody where a rule of some caller must see its denied requests', () => {
  const strict = fc.constantFrom({ countDenied: true }, { blockSeconds: 60 });
  let found = 0;
  fc.assert(
    fc.property(rules, fc.nat(7), strict, caller, (list, nth, fields, who) => {
      const seeing = list.map((rule, i) => (i === nth % list.length ? { ...rule, ...fields } : rule));
      const snapshot = compileSnapshot('v', { rules: seeing, tiers: TIERS, lists: [] });
      const from = { ip: '192.0.2.1', address: '192.0.2.1' };
      const asked = { matchPath: '/a', method: 'GET', nowMs: 0 };
      const anybody = snapshot.matchByIpOnly({ ...asked, caller: from });
      const others = snapshot
        .match({ ...asked, caller: { ...from, ...who } })
        .filter(({ rule }) => !anybody.some((match) => match.rule === rule));
      const mustSee = others.filter(({ rule }) => rule.countDenied || rule.blockSeconds !== null);
      found += mustSee.length;
      if (mustSee.length > 0) expect(anybody).toEqual([]);
    }),
    { numRuns: rounds(3_000) },
  );
  expect(found).toBeGreaterThan(500);
});

it('no rule applies to anybody if the allow list names users, or under Weir’s own paths', () => {
  const matched = (value: string, kind: 'ip' | 'user', matchPath = '/x') =>
    compileSnapshot('v', {
      rules: [createRule()],
      tiers: [],
      lists: [{ list: 'allow', kind, value, expiresAtMs: null }],
    }).matchByIpOnly({
      matchPath,
      method: 'GET',
      caller: { ip: '192.0.2.1', address: '192.0.2.1' },
      nowMs: 0,
    }).length;
  expect([matched('192.0.2.9', 'ip'), matched('u', 'user')]).toEqual([1, 0]);
  expect(matched('192.0.2.9', 'ip', '/_weir/health')).toBe(0);
});
