// Several limits, costs by resource, exceptions and replacements, as the snapshot finds them.

import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { counterId } from '../../src/core/counting/keys.ts';
import type { Rule, Tier } from '../../src/core/matching/rule.ts';
import { compileSnapshot, withCounterIds } from '../../src/core/matching/snapshot.ts';
import { decodeSnapshot, encodeSnapshot, versionOf } from '../../src/core/matching/stored-snapshot.ts';

const rule = (fields: RuleFields & Pick<Rule, 'id'>): Rule => createRule({ name: fields.id, ...fields });

const SEVERAL: RuleFields = {
  limit: null,
  windowSeconds: null,
  limits: [
    { limit: 20, windowSeconds: 1 },
    { limit: 1000, windowSeconds: 3600, algorithm: 'gcra', burst: 50 },
  ],
};

const TIERS: Tier[] = [
  { name: 'free', limits: { burst: 5 }, isDefault: true },
  { name: 'scale', limits: { burst: null }, isDefault: false },
];

const CALLER = { ip: '192.0.2.1', address: '192.0.2.1', userId: 'ada' };

const NOW_MS = Date.parse('2030-06-01T00:00:00Z');

async function match(
  rules: readonly Rule[],
  matchPath = '/x',
  { method = 'GET', tier = 'free', userId = 'ada', nowMs = NOW_MS } = {},
) {
  const content = { rules: await withCounterIds(rules), tiers: TIERS, lists: [] };
  // As an isolate loads it, from the stored text.
  const text = encodeSnapshot(content);
  const snapshot = await decodeSnapshot(await versionOf(text), text);
  return snapshot?.match({ matchPath, method, caller: { ...CALLER, userId, tier }, nowMs }) ?? [];
}

const namesAt = async (rules: readonly Rule[], matchPath: string) =>
  (await match(rules, matchPath)).map((one) => one.rule.name);

describe('a rule with several limits', () => {
  it('has a counter for each limit', async () => {
    const matches = await match([rule({ id: 'a', ...SEVERAL })]);
    expect(
      matches.map(({ rule: { algorithm, windowSeconds, burst }, limit }) => [
        algorithm,
        windowSeconds,
        burst,
        limit,
      ]),
    ).toEqual([
      ['fixed-window', 1, null, 20],
      ['gcra', 3600, 50, 1000],
    ]);
    expect(matches.map((one) => one.rule.counterId)).toEqual([
      await counterId('a', 'fixed-window', 1_000),
      await counterId('a', 'gcra', 3_600_000),
    ]);
  });

  it('keeps its count when one limit becomes several', async () => {
    const [before] = await match([rule({ id: 'a', windowSeconds: 1 })]);
    const [after] = await match([rule({ id: 'a', ...SEVERAL })]);
    expect(after?.rule.counterId).toBe(before?.rule.counterId);
  });

  it('takes each limit from the tier by its name, and leaves out unlimited ones', async () => {
    const limits = [
      { limit: 20, limitName: 'burst', windowSeconds: 1 },
      { limit: 1000, windowSeconds: 3600 },
    ];
    const rules = [rule({ id: 'a', ...SEVERAL, limits })];
    expect((await match(rules)).map(({ limit }) => limit)).toEqual([5, 1000]);
    expect((await match(rules, '/x', { tier: 'scale' })).map(({ limit }) => limit)).toEqual([1000]);
  });

  it('shows callers every limit', async () => {
    const content = { rules: await withCounterIds([rule({ id: 'a', ...SEVERAL })]), tiers: TIERS, lists: [] };
    const limits = compileSnapshot('v', content).limitsOf(CALLER, NOW_MS);
    expect(limits.map(({ limit, cost }) => [limit, cost])).toEqual([
      [20, 1],
      [1000, 1],
    ]);
  });
});

describe('costs', () => {
  const rules = [
    rule({
      id: 'budget',
      resource: '/v1/*',
      cost: 2,
      costs: [
        { resource: '/v1/*', methods: ['GET'], cost: 1 },
        { resource: '/v1/:kind/search', cost: 4 },
        { resource: '/v1/things/search', cost: 5 },
        { resource: '/v1/things/*', cost: 3 },
        { resource: '/v1/things/search', methods: ['POST'], cost: 6 },
        { resource: '/v1/ai/*', cost: 50 },
      ],
    }),
  ];

  it.each([
    ['GET', '/v1/x', 1],
    ['HEAD', '/v1/x', 1],
    ['PUT', '/v1/x', 2],
    ['GET', '/v1/other/search', 4],
    ['GET', '/v1/things/7', 3],
    ['GET', '/v1/things/search', 5],
    ['POST', '/v1/things/search', 6],
    ['POST', '/v1/ai/chat/7', 50],
  ])('%s %s costs %d units, by the most specific entry', async (method, path, cost) =>
    expect((await match(rules, path, { method })).map((one) => one.cost)).toEqual([cost]),
  );
});

describe('an exception', () => {
  const all = rule({ id: 'all' });

  it('puts aside rules of its scope whose resource contains its own', async () => {
    const rules = [
      all,
      rule({ id: 'all users', scope: 'user' }),
      rule({ id: 'static', resource: '/static/*', action: 'allow' }),
      rule({ id: 'uploads', resource: '/static/uploads' }),
      rule({ id: 'watched', action: 'log' }),
    ];
    expect(await namesAt(rules, '/x')).toEqual(['all users', 'all', 'watched']);
    expect(await namesAt(rules, '/static/logo')).toEqual(['all users']);
    expect(await namesAt(rules, '/static/uploads')).toEqual(['all users', 'uploads']);
  });

  it('in the same slot is only for the subjects that it names', async () => {
    const partner = rule({ id: 'partner', action: 'allow', subjects: ['192.0.2.1'] });
    expect(await namesAt([all, partner], '/x')).toEqual([]);
    expect(await namesAt([all, { ...partner, subjects: ['192.0.2.9'] }], '/x')).toEqual(['all']);
  });

  it('needs no limit', async () => {
    const bare = { algorithm: null, limit: null, windowSeconds: null, action: 'allow' } as const;
    expect(await namesAt([all, rule({ id: 'health', resource: '/health', ...bare })], '/health')).toEqual([]);
  });

  it('for some methods puts no rule aside for other methods', async () => {
    const reads = rule({ id: 'reads', resource: '/x', action: 'allow', methods: ['GET'] });
    expect(await match([all, reads], '/x')).toEqual([]);
    expect((await match([all, reads], '/x', { method: 'POST' })).map((one) => one.rule.name)).toEqual([
      'all',
    ]);
  });
});

describe('a rule that replaces', () => {
  it('applies instead of broader rules, and only to its own resource', async () => {
    const rules = [
      rule({ id: 'all' }),
      rule({ id: 'v1', resource: '/v1/*' }),
      rule({ id: 'search', resource: '/v1/search', replaces: true }),
      rule({ id: 'any', resource: '/:any/search/*' }),
    ];
    expect(await namesAt(rules, '/v1/search')).toEqual(['search']);
    expect(await namesAt(rules, '/v1/search/x')).toEqual(['all', 'v1', 'any']);
    expect(await namesAt([...rules, rule({ id: 'me', resource: '/v1/:x' })], '/v1/search')).toEqual([
      'search',
    ]);
  });

  it('applies instead of broader rules even if it has no limit for the caller', async () => {
    const search = rule({
      id: 'search',
      resource: '/search',
      replaces: true,
      limit: null,
      limitName: 'burst',
    });
    const rules = [rule({ id: 'all' }), search];
    expect(await match(rules, '/search', { tier: 'scale' })).toEqual([]);
  });

  it('and only logs replaces only rules that log, too', async () => {
    const rules = [
      rule({ id: 'all' }),
      rule({ id: 'watched', action: 'log' }),
      rule({ id: 'search', resource: '/search', replaces: true, action: 'log' }),
    ];
    expect(await namesAt(rules, '/search')).toEqual(['all', 'search']);
  });
});

describe('an override', () => {
  const all = rule({ id: 'all', scope: 'user' });
  const namesFor = async (rules: readonly Rule[], asked: { userId?: string; nowMs?: number }) =>
    (await match(rules, '/x', asked)).map((one) => one.rule.name);

  it('applies from its first moment until its last one', async () => {
    const span = { validFromMs: NOW_MS, validUntilMs: NOW_MS + 60_000 };
    const rules = [all, rule({ id: 'for ada', scope: 'user', subjects: ['ada'], ...span })];
    const at = (nowMs: number) => namesFor(rules, { nowMs });
    expect(await at(span.validFromMs - 1)).toEqual(['all']);
    expect(await at(span.validFromMs)).toEqual(['for ada']);
    expect(await at(span.validUntilMs - 1)).toEqual(['for ada']);
    expect(await at(span.validUntilMs)).toEqual(['all']);
  });

  it('by pattern is for all subjects with that prefix, and an override by name comes before it', async () => {
    const rules = [
      all,
      rule({ id: 'acme', scope: 'user', subjects: ['acme-*', 'friend'] }),
      rule({ id: 'acme, longer', scope: 'user', subjects: ['acme-eu-*'], priority: 50 }),
      rule({ id: 'one', scope: 'user', subjects: ['acme-1'] }),
    ];
    const names = (userId: string) => namesFor(rules, { userId });
    expect(await names('acme-7')).toEqual(['acme']);
    expect(await names('acme-')).toEqual(['acme']);
    expect(await names('acme')).toEqual(['all']);
    expect(await names('friend')).toEqual(['acme']);
    expect(await names('acme-1')).toEqual(['one']);
    expect(await names('acme-eu-1')).toEqual(['acme, longer']);
  });
});

describe('percent', () => {
  const users = Array.from({ length: 2_000 }, (_, i) => `user-${i}`);
  const chosen = async (percent: number, id = 'new') => {
    const content = {
      rules: await withCounterIds([
        rule({ id: 'old', scope: 'user' }),
        rule({ id, scope: 'user', priority: 1, percent }),
      ]),
      tiers: [],
      lists: [],
    };
    const snapshot = compileSnapshot('v', content);
    const isChosen = (userId: string) =>
      snapshot.match({ matchPath: '/x', method: 'GET', caller: { ...CALLER, userId }, nowMs: 0 })[0]?.rule
        .id === id;
    return users.filter(isChosen);
  };

  it('chooses about that percentage of subjects; for the others the next rule of the slot applies', async () => {
    expect(await chosen(0)).toEqual([]);
    expect(await chosen(100)).toEqual(users);
    // Ids and users are fixed, so the hash always chooses the same ones.
    expect((await chosen(25)).length).toBeGreaterThan(400);
    expect((await chosen(25)).length).toBeLessThan(600);
  });

  it('keeps the chosen subjects when it rises, and each rule chooses its own', async () => {
    const few = await chosen(10);
    expect(await chosen(30)).toEqual(expect.arrayContaining(few));
    expect(await chosen(10, 'other')).not.toEqual(few);
  });
});

describe('a rule with several resources', () => {
  const shared = rule({ id: 'shared', resource: '/a/*', resources: ['/a/*', '/b/:id', '/:any/x'] });

  it('has one counter for all resources, and is counted once if two of them match', async () => {
    const counters = await Promise.all(
      ['/a', '/a/y', '/b/7', '/c/x', '/a/x'].map(async (path) =>
        (await match([shared], path)).map((one) => one.rule.counterId),
      ),
    );
    expect(new Set(counters.flat()).size).toBe(1);
    expect(counters.map((list) => list.length)).toEqual([1, 1, 1, 1, 1]);
    expect(await match([shared], '/b/7/8')).toEqual([]);
  });

  it('wins or loses the slot of each resource separately', async () => {
    const better = rule({ id: 'better', resource: '/b/{name}', priority: 1 });
    expect(await namesAt([shared, better], '/b/7')).toEqual(['better']);
    expect(await namesAt([shared, better], '/a/7')).toEqual(['shared']);
    expect(await namesAt([shared, better], '/b/x')).toEqual(['better', 'shared']);
  });

  it('appears once among the limits of a caller', async () => {
    const content = { rules: await withCounterIds([shared]), tiers: [], lists: [] };
    expect(compileSnapshot('v', content).limitsOf(CALLER, NOW_MS)).toHaveLength(1);
  });
});
