// Rules that multiply: one rule changes all limits of a customer, wherever a limit comes from.

import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { explain } from '../../src/authoring/explain.ts';
import { planRequest } from '../../src/core/matching/plan.ts';
import { compileSnapshot, type PublishedRule } from '../../src/core/matching/snapshot.ts';
import { encodeSnapshot } from '../../src/core/matching/stored-snapshot.ts';

const FROM_MS = 1_000;
const UNTIL_MS = 2_000;

let lastId = 0;
const rule = (name: string, fields: RuleFields = {}): PublishedRule => {
  lastId += 1;
  const id = String(lastId).padStart(3, '0');
  return createRule({ id, name, scope: 'tenant', ordinal: lastId, ...fields });
};
const times = (name: string, factor: number, fields: RuleFields = {}): PublishedRule =>
  rule(name, { action: 'multiply', times: factor, subjects: ['acme'], ...fields });

const RULES = [
  rule('all'),
  rule('search', { resource: '/v1/search', algorithm: 'token-bucket', limit: 3, burst: 5 }),
  rule('several', { resource: '/v1/search', resources: ['/v1/search', '/v2/x'], by: ['tenant'], limit: 2 }),
  rule('addresses', { scope: 'ip', limit: 7 }),
];
const LAUNCH = times('launch', 3, { validFromMs: FROM_MS, validUntilMs: UNTIL_MS });

interface Asked {
  readonly tenantId?: string;
  readonly userId?: string | undefined;
  readonly nowMs?: number;
}

const requestOf = ({ tenantId = 'acme', userId, nowMs = FROM_MS }: Asked) => ({
  ...{ matchPath: '/v1/search', method: 'GET', nowMs, seatId: () => '' },
  caller: { ip: '192.0.2.1', address: '192.0.2.1', tenantId, userId },
});

/** Asks in three ways, which must agree. */
function limitsOf(rules: readonly PublishedRule[], asked: Asked = {}): Record<string, number> {
  const request = requestOf(asked);
  const snapshot = compileSnapshot('v', { rules, tiers: [], lists: [] });
  const toLimits = (matches: ReturnType<typeof snapshot.match>) =>
    Object.fromEntries(matches.map((match) => [match.rule.name, match.limit]));
  const matched = toLimits(snapshot.match(request));
  // `limitsOf` covers every path, so it may return more limits.
  expect(toLimits(snapshot.limitsOf(request.caller, request.nowMs))).toMatchObject(matched);
  const explained = explain({ rules, tiers: [], lists: [] }, request).rules.flatMap((one) =>
    one.reason === 'applies' ? [[one.name, one.limits[0]?.limit]] : [],
  );
  expect(Object.fromEntries(explained)).toEqual(matched);
  return matched;
}

describe('a rule that multiplies', () => {
  it('changes all limits of its scope for the callers that it names, and for no others', () => {
    expect(limitsOf([...RULES, LAUNCH])).toEqual({ all: 30, search: 9, several: 6, addresses: 7 });
    expect(limitsOf([...RULES, LAUNCH], { tenantId: 'globex' })).toEqual({
      ...{ all: 10, search: 3, several: 2, addresses: 7 },
    });
  });

  it('begins and ends at its set times', () => {
    expect(limitsOf([...RULES, LAUNCH], { nowMs: FROM_MS - 1 })['all']).toBe(10);
    expect(limitsOf([...RULES, LAUNCH], { nowMs: UNTIL_MS - 1 })['all']).toBe(30);
    expect(limitsOf([...RULES, LAUNCH], { nowMs: UNTIL_MS })['all']).toBe(10);
  });

  it('changes a limit only if it covers all resources of that limit', () => {
    expect(limitsOf([...RULES, times('v1', 3, { resource: '/v1/*' })])).toMatchObject({
      ...{ all: 10, search: 9, several: 2 },
    });
  });

  it('multiplies a limit alone if its priority is lower than that of the other multipliers', () => {
    const rules = [...RULES, LAUNCH, times('less', 0.5, { resource: '/v1/*', priority: 50 })];
    expect(limitsOf(rules)).toMatchObject({ all: 30, search: 1, several: 6 });
  });

  it('is not put aside by a rule that replaces broader ones', () => {
    const rules = [rule('all'), rule('own', { resource: '/v1/search', replaces: true, limit: 4 }), LAUNCH];
    expect(limitsOf(rules)).toEqual({ own: 12 });
  });

  it('multiplies a burst, too, and keeps the counter', async () => {
    const [, search] = RULES;
    const snapshot = compileSnapshot('v', { rules: [...RULES, LAUNCH], tiers: [], lists: [] });
    const plan = await planRequest(snapshot, requestOf({}));
    const check = plan.kind === 'checks' && plan.checks.find(({ rule: of }) => of.name === 'search');
    expect(check).toMatchObject({
      id: search?.limits[0]?.counterId,
      limit: 9,
      extra: 15,
      full: { limit: 9, extra: 15 },
    });
  });

  it('never makes a limit that cannot be counted', () => {
    const rules = [rule('log', { algorithm: 'sliding-window-log', limit: 1_000 }), times('much', 1_000_000)];
    expect(limitsOf(rules)).toEqual({ log: 100_000 });
  });

  it('changes checks that name a rule, too', () => {
    const snapshot = compileSnapshot('v', { rules: [...RULES, LAUNCH], tiers: [], lists: [] });
    const [named] = snapshot.rulesNamed({ rule: 'search' });
    const { caller } = requestOf({});
    expect(named?.counters.map((counter) => snapshot.limitOf(counter, caller, FROM_MS))).toEqual([
      { limit: 9, times: 3 },
    ]);
  });

  it('excludes limits that it may change from those that hold for anybody at an address', () => {
    const match = (rules: readonly PublishedRule[]) =>
      compileSnapshot('v', { rules, tiers: [], lists: [] }).matchByIpOnly(requestOf({}));
    expect(match(RULES).map((one) => one.rule.name)).toEqual(['addresses']);
    expect(match([...RULES, LAUNCH]).map((one) => one.rule.name)).toEqual(['addresses']);
    expect(match([...RULES, times('address', 2, { scope: 'ip', subjects: ['192.0.2.1'] })])).toEqual([]);
  });

  it('raises the snapshot format, so that old Workers do not take it for a limit', () => {
    const formatOf = (rules: readonly PublishedRule[]) =>
      JSON.parse(encodeSnapshot({ rules, tiers: [], lists: [] })).format;
    expect([formatOf(RULES), formatOf([...RULES, LAUNCH])]).toEqual([3, 4]);
  });
});

describe('a rule of every scope', () => {
  const OF_ALL = [
    rule('tenant'),
    rule('user', { scope: 'user' }),
    rule('address', { scope: 'ip' }),
    rule('together', { scope: 'global' }),
    rule('country', { scope: 'user', by: ['country'] }),
    rule('country of a user', { scope: 'ip', by: ['user', 'country'] }),
  ];
  const launch = times('all of acme', 3, { scope: 'all', subjects: [], tenants: ['acme'] });
  const USUAL = { tenant: 10, user: 10, address: 10, together: 10, country: 10, 'country of a user': 10 };

  it('multiplies the limits of a tenant, its users and its keys, and none that others share', () => {
    expect(limitsOf([...OF_ALL, launch], { userId: 'ada' })).toEqual({
      ...USUAL,
      ...{ tenant: 30, user: 30, 'country of a user': 30 },
    });
    expect(limitsOf([...OF_ALL, launch], { userId: 'bob', tenantId: 'globex' })).toEqual(USUAL);
  });

  it('does not multiply a limit that counts a caller by its IP, for lack of an id', () => {
    expect(limitsOf([...OF_ALL, launch])).toEqual({ ...USUAL, tenant: 30 });
    const users = times('users', 3, { scope: 'user', subjects: [], tenants: ['acme'] });
    expect(limitsOf([...OF_ALL, users])).toEqual(USUAL);
  });

  it('comes after one for a single scope that names as much', () => {
    const users = times('users', 5, { id: 'z', scope: 'user', subjects: [], tenants: ['acme'] });
    expect(limitsOf([...OF_ALL, launch, users], { userId: 'ada' })).toMatchObject({ tenant: 30, user: 50 });
  });

  const free = (fields: RuleFields = {}) =>
    rule('free', { scope: 'all', action: 'allow', resource: '/v1/search', ...fields });

  it('allows in all scopes at once, also where a rule is for the same resource', () => {
    const search = rule('search itself', { scope: 'user', resource: '/v1/search' });
    expect(limitsOf([...OF_ALL, search, free()], { userId: 'ada' })).toEqual({});
    expect(limitsOf([...OF_ALL, search, free({ resource: '/v1/*' })])).toEqual({ 'search itself': 10 });
  });

  it('leaves a limit for the same resource that is more specific, or has a lower priority', () => {
    const strict = { resource: '/v1/search', scope: 'user' } as const;
    const bob = rule('bob', { ...strict, subjects: ['bob'] });
    const first = rule('first', { ...strict, scope: 'ip', priority: 1 });
    expect(limitsOf([bob, first, free()], { userId: 'bob' })).toEqual({ bob: 10, first: 10 });
    expect(limitsOf([bob, first, free()], { userId: 'ada' })).toEqual({ first: 10 });
  });

  it('allows only the tenants that it names', () => {
    const ofAcme = free({ resource: '/*', tenants: ['acme*'] });
    expect(limitsOf([...OF_ALL, ofAcme], { tenantId: 'acme-eu' })).toEqual({});
    expect(limitsOf([...OF_ALL, ofAcme], { tenantId: 'globex' })).toEqual(USUAL);
  });

  it('raises the snapshot format, so that old Workers do not apply it to everybody', () => {
    const formatOf = (...rules: readonly PublishedRule[]) =>
      JSON.parse(encodeSnapshot({ rules, tiers: [], lists: [] })).format;
    expect([formatOf(free()), formatOf(launch), formatOf(rule('a', { tenants: ['acme'] }))]).toEqual([
      5, 5, 5,
    ]);
  });
});

describe('an override for a tenant', () => {
  const slot = [
    rule('all users', { scope: 'user' }),
    rule('of acme', { scope: 'user', tenants: ['acme'], limit: 20 }),
    rule('of all acmes', { scope: 'user', tenants: ['acme*'], limit: 30 }),
    rule('of a tier', { scope: 'user', tiers: ['pro'], limit: 40 }),
    rule('of ada', { scope: 'user', subjects: ['ada'], tenants: ['acme'], limit: 50 }),
  ];

  it('wins its slot for all users of the tenant: the name before the pattern, and a subject before both', () => {
    expect(limitsOf(slot, { userId: 'bob' })).toEqual({ 'of acme': 20 });
    expect(limitsOf(slot, { userId: 'bob', tenantId: 'acme-eu' })).toEqual({ 'of all acmes': 30 });
    expect(limitsOf(slot, { userId: 'ada' })).toEqual({ 'of ada': 50 });
    expect(limitsOf(slot, { userId: 'ada', tenantId: 'globex' })).toEqual({ 'all users': 10 });
  });
});
