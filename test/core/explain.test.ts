import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type ExplainRequest, explain, type RuleVerdict } from '../../src/authoring/explain.ts';
import type { Caller } from '../../src/core/matching/caller.ts';
import type { Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot } from '../../src/core/matching/snapshot.ts';
import { rounds } from '../rounds.ts';
import {
  anyRequest,
  anyRule,
  anyTiers,
  type GivenFields,
  type GivenRule,
  rule,
} from './random-explanations.ts';

const CALLER: Caller = { ip: '2001:db8::/64', address: '2001:db8::1', userId: 'ada' };
const REQUEST: ExplainRequest = { matchPath: '/users/7', method: 'GET', caller: CALLER, nowMs: 0 };
const TIERS: Tier[] = [
  { name: 'free', limits: { requests: 100 }, isDefault: true },
  { name: 'enterprise', limits: { requests: null }, isDefault: false },
];

const explained = (rules: GivenRule[], request: Partial<ExplainRequest> = {}) =>
  explain({ rules, tiers: TIERS, lists: [] }, { ...REQUEST, ...request });

const verdictOn = (fields: GivenFields, request: Partial<ExplainRequest> = {}) =>
  explained([rule({ id: 'a', ...fields })], request).rules[0];

describe('explain', () => {
  it.each<[GivenFields, RuleVerdict]>([
    [{ enabled: false, resource: '/other' }, { reason: 'disabled' }],
    [{ resource: '/other', methods: ['POST'] }, { reason: 'resource' }],
    [{ methods: ['POST'], tiers: ['enterprise'] }, { reason: 'method' }],
    [{ tiers: ['enterprise'], subjects: ['x'] }, { reason: 'tier' }],
    [{ subjects: ['192.0.2.9'] }, { reason: 'subject' }],
    [{ percent: 0 }, { reason: 'percent' }],
    [{ validFromMs: 1 }, { reason: 'time' }],
    [{ validUntilMs: 0 }, { reason: 'time' }],
    [{ limit: null, limitName: 'exports' }, { reason: 'unlimited' }],
  ])('says why a rule does not apply: %j', (fields, verdict) =>
    expect(verdictOn(fields)).toEqual({ ruleId: 'a', name: 'rule a', ...verdict }),
  );

  it('says what limit a rule has, where it comes from and who is counted', () => {
    expect(verdictOn({ scope: 'user', limitName: 'requests' })).toMatchObject({
      reason: 'applies',
      limits: [{ limit: 100, limitFrom: 'tier', policy: 'all-user', windowSeconds: 60 }],
      cost: 1,
      subject: { scope: 'user', id: 'ada' },
    });
    expect(verdictOn({ scope: 'apiKey' })).toMatchObject({
      reason: 'applies',
      limits: [{ limit: 10, limitFrom: 'rule', policy: 'all-key' }],
      subject: { scope: 'ip', id: '2001:db8::/64' },
    });
  });

  it('says which rule replaces a broader one, and which one allows the request', () => {
    const { rules } = explained([
      rule({ id: 'all' }),
      rule({ id: 'users', resource: '/users/*', replaces: true }),
      rule({ id: 'user', resource: '/users/:id', action: 'allow' }),
      rule({ id: 'others', scope: 'global' }),
    ]);
    expect(rules.map(({ ruleId, name, ...verdict }) => verdict)).toMatchObject([
      { reason: 'replaced', winnerId: 'users' },
      { reason: 'replaced', winnerId: 'user' },
      { reason: 'allows' },
      { reason: 'applies' },
    ]);
  });

  it('says what the request costs by the most specific cost', () => {
    const costs = [
      { resource: '/*', cost: 2 },
      { resource: '/users/:id', cost: 5 },
    ];
    expect(verdictOn({ costs })).toMatchObject({ reason: 'applies', cost: 5 });
  });

  it('names the rule that comes before another one in its slot', () => {
    const { rules } = explained([
      rule({ id: 'b', resource: '/users/{id}' }),
      rule({ id: 'a', resource: '/users/:name' }),
      rule({ id: 'c', resource: '/users/:id', priority: 1, enabled: false }),
    ]);
    expect(rules.map(({ ruleId, name, ...verdict }) => verdict)).toMatchObject([
      { reason: 'outranked', winnerId: 'a' },
      { reason: 'applies' },
      { reason: 'disabled' },
    ]);
  });

  it('lets an unlimited rule outrank the other rules of its slot', () => {
    const caller = { ...CALLER, tier: 'enterprise' };
    const { rules, tier } = explained([rule({ id: 'a', limitName: 'requests' }), rule({ id: 'b' })], {
      caller,
    });
    expect(tier).toBe('enterprise');
    expect(rules).toMatchObject([{ reason: 'unlimited' }, { reason: 'outranked', winnerId: 'a' }]);
  });

  it('says which list the caller is on, and which tier it has', () => {
    const lists = [{ list: 'deny', kind: 'ip', value: '2001:db8::/32', expiresAtMs: 10 } as const];
    expect(explain({ rules: [], tiers: TIERS, lists }, REQUEST)).toEqual({
      listed: 'deny',
      tier: 'free',
      rules: [],
    });
    expect(explain({ rules: [], tiers: [], lists }, { ...REQUEST, nowMs: 10 })).toEqual({
      listed: undefined,
      tier: undefined,
      rules: [],
    });
  });
});

describe('explain and a compiled snapshot', () => {
  it('agree on the rules that apply, their limits and their costs', () => {
    let applied = 0;
    fc.assert(
      fc.property(
        fc.array(anyRule, { maxLength: 30, size: 'max' }),
        anyTiers,
        fc.array(anyRequest, { minLength: 20, maxLength: 30 }),
        (fields, tiers, requests) => {
          const rules = fields.map((each, i) => rule({ id: `r${(i * 7) % 31}`, ...each }));
          const inForce = rules.filter(({ enabled }) => enabled);
          const snapshot = compileSnapshot('v', { rules: inForce, tiers, lists: [] });
          for (const request of requests) {
            const matches = snapshot
              .match(request)
              .map(({ rule, limit, cost }) => [rule.id, rule.windowSeconds, limit, cost]);
            const applying = explain({ rules, tiers, lists: [] }, request).rules.flatMap((each) =>
              each.reason === 'applies'
                ? each.limits.map(({ windowSeconds, limit }) => [
                    each.ruleId,
                    windowSeconds,
                    limit,
                    each.cost,
                  ])
                : [],
            );
            expect(matches.toSorted()).toEqual(applying.toSorted());
            applied += applying.length;
          }
        },
      ),
      { numRuns: rounds(300) },
    );
    // If no rule matched any request, agreement would prove nothing.
    expect(applied).toBeGreaterThan(1000);
  });
});
