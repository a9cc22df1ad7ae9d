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
  readonly nowMs?: number;
}

const requestOf = ({ tenantId = 'acme', nowMs = FROM_MS }: Asked) => ({
  ...{ matchPath: '/v1/search', method: 'GET', nowMs, seatId: () => '' },
  caller: { ip: '192.0.2.1', address: '192.0.2.1', tenantId },
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
