import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { counterId } from '../../src/core/counting/keys.ts';
import type { Caller } from '../../src/core/matching/caller.ts';
import type { Tier } from '../../src/core/matching/rule.ts';
import {
  compileSnapshot,
  type MatchRequest,
  type PublishedRule,
  type SnapshotContent,
  withCounterIds,
} from '../../src/core/matching/snapshot.ts';

let lastId = 0;
const rule = (fields: RuleFields): PublishedRule => {
  lastId += 1;
  const id = String(lastId);
  return createRule({ id, name: `rule ${id}`, ordinal: lastId, ...fields });
};

const CALLER: Caller = { ip: '192.0.2.1', address: '192.0.2.1' };
const TIERS: Tier[] = [
  { name: 'free', limits: { requests: 100 }, isDefault: true },
  { name: 'premium', limits: { requests: 5000 }, isDefault: false },
  { name: 'enterprise', limits: { requests: null }, isDefault: false },
];

const match = (
  { rules, tiers = TIERS, lists = [] }: Partial<SnapshotContent> & Pick<SnapshotContent, 'rules'>,
  {
    matchPath = '/x',
    method = 'GET',
    caller = {},
  }: Partial<Omit<MatchRequest, 'caller' | 'nowMs'>> & { caller?: Partial<Caller> },
) =>
  compileSnapshot('v1', { rules, tiers, lists }).match({
    matchPath,
    method,
    caller: { ...CALLER, ...caller },
    nowMs: 0,
  });

const namesOf = (matches: ReturnType<typeof match>) => matches.map(({ rule: { name } }) => name);
const matching = (rules: PublishedRule[], asked: Parameters<typeof match>[1]) =>
  namesOf(match({ rules }, asked));

describe('a snapshot', () => {
  it('matches everything, a prefix, an exact path and a template, without regard to case', () => {
    const rules = [
      rule({ name: 'all', resource: '/*' }),
      rule({ name: 'api', resource: '/API/*' }),
      rule({ name: 'login', resource: '/login' }),
      rule({ name: 'user', resource: '/api/Users/:id' }),
      rule({ name: 'under user', resource: '/api/users/{id}/*' }),
      rule({ name: 'any', resource: '/:any' }),
    ];
    const at = (matchPath: string) => matching(rules, { matchPath });
    expect(at('/api')).toEqual(['all', 'api', 'any']);
    expect(at('/api/users')).toEqual(['all', 'api']);
    expect(at('/apiary')).toEqual(['all', 'any']);
    expect(at('/login')).toEqual(['all', 'login', 'any']);
    expect(at('/login/x')).toEqual(['all']);
    expect(at('/api/users/7')).toEqual(['all', 'api', 'under user', 'user']);
    expect(at('/api/users/7/orders')).toEqual(['all', 'api', 'under user']);
    expect(at('/')).toEqual(['all']);
  });

  it('tries a literal segment and a parameter, and takes the one that leads to a rule', () => {
    const rules = [
      rule({ name: 'literal', resource: '/users/me/posts' }),
      rule({ name: 'parameter', resource: '/users/:id/orders' }),
    ];
    expect(matching(rules, { matchPath: '/users/me/orders' })).toEqual(['parameter']);
    expect(matching(rules, { matchPath: '/users/me/posts' })).toEqual(['literal']);
  });

  it('has no rules for the paths of Weir', () => {
    const rules = ['/*', '/:any', '/:any/*'].map((resource) => rule({ resource }));
    expect(matching(rules, { matchPath: '/_weir' })).toEqual([]);
    expect(matching(rules, { matchPath: '/_weir/admin' })).toEqual([]);
    expect(matching(rules, { matchPath: '/_weird' })).toHaveLength(3);
  });

  it('reads two slashes as one, so that no such spelling escapes a rule', () => {
    const rules = [rule({ name: 'a', resource: '/a/b' })];
    expect(matching(rules, { matchPath: '/a//b' })).toEqual(['a']);
    expect(matching(rules, { matchPath: '/a/b/' })).toEqual(['a']);
  });

  it('takes one rule for each scope and resource: by priority, then specificity, then id', () => {
    const rules = [
      rule({ id: 'b', name: 'tied, later id', priority: 5 }),
      rule({ id: 'a', name: 'tied, first id', priority: 5 }),
      rule({ id: '0', name: 'lower priority', priority: 6, methods: ['GET'] }),
      rule({ id: 'c', name: 'another scope', scope: 'global', priority: 50 }),
    ];
    expect(matching(rules, {})).toEqual(['another scope', 'tied, first id']);
    expect(matching(rules.toReversed(), {})).toEqual(['another scope', 'tied, first id']);
  });

  it('reads templates that differ only in names and spelling as one slot', () => {
    const rules = [
      rule({ name: 'first', resource: '/users/:id', priority: 1 }),
      rule({ name: 'second', resource: '/Users/{name}/', priority: 2 }),
    ];
    expect(matching(rules, { matchPath: '/users/7' })).toEqual(['first']);
  });

  it('prefers a rule that names subjects to one that names tiers and methods, and tiers to methods', () => {
    const plain = rule({ name: 'plain' });
    const methods = rule({ name: 'methods', methods: ['GET'] });
    const tiers = rule({ name: 'tiers', tiers: ['free'] });
    const both = rule({ name: 'tiers and methods', tiers: ['free'], methods: ['GET'] });
    const subjects = rule({ name: 'subjects', subjects: [CALLER.ip] });
    expect(matching([plain, methods, tiers, both, subjects], {})).toEqual(['subjects']);
    expect(matching([plain, methods, tiers, both], {})).toEqual(['tiers and methods']);
    expect(matching([plain, methods, tiers], {})).toEqual(['tiers']);
    expect(matching([plain, methods], {})).toEqual(['methods']);
  });

  it('applies a rule for GET to HEAD too, and one for HEAD to HEAD alone', () => {
    const rules = [
      rule({ name: 'get', methods: ['GET'] }),
      rule({ name: 'head', methods: ['HEAD'], scope: 'global' }),
    ];
    expect(matching(rules, { method: 'GET' })).toEqual(['get']);
    expect(matching(rules, { method: 'HEAD' })).toEqual(['head', 'get']);
    expect(matching(rules, { method: 'POST' })).toEqual([]);
  });

  it('uses the next rule of the slot when the better one is for other requests', () => {
    const rules = [
      rule({ name: 'premium', tiers: ['premium'], priority: 1 }),
      rule({ name: 'post', methods: ['POST'], priority: 2 }),
      rule({ name: 'somebody', subjects: ['198.51.100.9'], priority: 3 }),
      rule({ name: 'everybody', priority: 4 }),
    ];
    expect(matching(rules, {})).toEqual(['everybody']);
    expect(matching(rules, { method: 'POST' })).toEqual(['post']);
    expect(matching(rules, { method: 'POST', caller: { tier: 'premium' } })).toEqual(['premium']);
    expect(matching(rules, { caller: { ip: '198.51.100.9' } })).toEqual(['somebody']);
  });

  it('finds an override among the overrides of a thousand subjects', () => {
    const overrides = Array.from({ length: 1000 }, (_, i) =>
      rule({ name: `for ${i}`, scope: 'user', subjects: [`user-${i}`] }),
    );
    const rules = [...overrides, rule({ name: 'all', scope: 'user' })];
    const snapshot = compileSnapshot('v1', { rules, tiers: [], lists: [] });
    const of = (userId: string) =>
      namesOf(snapshot.match({ matchPath: '/', method: 'GET', caller: { ...CALLER, userId }, nowMs: 0 }));
    for (let i = 0; i < 1000; i++) expect(of(`user-${i}`)).toEqual([`for ${i}`]);
    expect(of('user-1000')).toEqual(['all']);
  });

  it('keeps an override for requests that a better override does not apply to', () => {
    const rules = [
      rule({ name: 'premium', subjects: [CALLER.ip], tiers: ['premium'], priority: 1 }),
      rule({ name: 'posts', subjects: [CALLER.ip], methods: ['POST'], priority: 2 }),
      rule({ name: 'others', subjects: [CALLER.ip], priority: 3 }),
    ];
    expect(matching(rules, { caller: { tier: 'premium' } })).toEqual(['premium']);
    expect(matching(rules, { method: 'POST' })).toEqual(['posts']);
    expect(matching(rules, {})).toEqual(['others']);
  });

  it('does not mistake the IP of a caller without a user for a user that an override names', () => {
    const rules = [
      rule({ name: 'override', scope: 'user', subjects: [CALLER.ip] }),
      rule({ name: 'users', scope: 'user' }),
    ];
    expect(matching(rules, {})).toEqual(['users']);
    expect(matching(rules, { caller: { userId: CALLER.ip } })).toEqual(['override']);
  });

  it('finds an override for a key whose id is written in upper case, and tells users of both cases apart', () => {
    const id = '9abba9bf-d616-491a-bc39-683ad6e48c45';
    const rules = (['apiKey', 'user'] as const).flatMap((scope) => [
      rule({ name: `override of ${scope}`, scope, subjects: [id.toUpperCase()] }),
      rule({ name: scope, scope }),
    ]);
    const caller = { apiKeyId: id, userId: id };
    expect(matching(rules, { caller }).toSorted()).toEqual(['override of apiKey', 'user']);
  });

  it('gives a caller without a tier, or with an unknown one, the default tier', () => {
    const rules = [rule({ name: 'free', tiers: ['free'] })];
    expect(matching(rules, {})).toEqual(['free']);
    expect(matching(rules, { caller: { tier: 'a tier that is gone' } })).toEqual(['free']);
    expect(matching(rules, { caller: { tier: 'premium' } })).toEqual([]);
    expect(match({ rules, tiers: [] }, {})).toEqual([]);
  });

  it('takes the limit of the tier, else that of the rule', () => {
    const limitOf = (fields: RuleFields, tier?: string) =>
      match({ rules: [rule(fields)] }, { caller: { tier } }).map(({ limit }) => limit);
    expect(limitOf({ limitName: 'requests' })).toEqual([100]);
    expect(limitOf({ limitName: 'requests' }, 'premium')).toEqual([5000]);
    expect(limitOf({ limitName: 'exports' }, 'premium')).toEqual([10]);
    // A caller with an unknown tier has the default one.
    expect(limitOf({ limitName: 'requests' }, 'a tier that is gone')).toEqual([100]);
    expect(limitOf({ limitName: 'requests' }, 'enterprise')).toEqual([]);
    expect(limitOf({ limitName: 'exports', limit: null }, 'premium')).toEqual([]);
    expect(limitOf({ limitName: 'toString', limit: null }, 'premium')).toEqual([]);
  });

  it('leaves the slot of an unlimited caller empty: the next rule does not step in', () => {
    const rules = [
      rule({ name: 'by tier', limitName: 'requests', priority: 1 }),
      rule({ name: 'next', priority: 2 }),
      rule({ name: 'another slot', scope: 'global' }),
    ];
    expect(matching(rules, { caller: { tier: 'enterprise' } })).toEqual(['another slot']);
    expect(matching(rules, { caller: { tier: 'premium' } })).toEqual(['another slot', 'by tier']);
  });

  it('knows its version, the number of its rules, and the callers on lists', () => {
    const snapshot = compileSnapshot('v7', {
      rules: [rule({})],
      tiers: [],
      lists: [{ list: 'deny', kind: 'ip', value: '192.0.2.0/24', expiresAtMs: 1000 }],
    });
    expect(snapshot).toMatchObject({ version: 'v7', ruleCount: 1 });
    expect(snapshot.listed(CALLER, 999)).toBe('deny');
    expect(snapshot.listed(CALLER, 1000)).toBeUndefined();
  });

  it('leaves out a rule whose resource cannot be read, and keeps the others', () => {
    const rules = [rule({ resource: '/a/*/b' }), rule({ name: 'good' })];
    expect(matching(rules, { matchPath: '/a/x/b' })).toEqual(['good']);
  });
});

describe('withCounterIds', () => {
  it('names counters by rule, algorithm, window and buckets', async () => {
    const given = rule({ algorithm: 'sliding-window-buckets', buckets: 6, windowSeconds: 30 });
    const id = await counterId(given.id, 'sliding-window-buckets', 30_000, 6);
    expect(await withCounterIds([given])).toEqual([
      { ...given, limits: [{ ...given.limits[0], counterId: id }] },
    ]);
  });
});
