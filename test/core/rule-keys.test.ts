// What a rule counts by: counters per route and method, subjects of several parts and their bounds, hosts and routes,
// and names that begin alike.

import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { explain } from '../../src/authoring/explain.ts';
import { groupOf } from '../../src/core/counting/keys.ts';
import type { Claims } from '../../src/core/matching/caller.ts';
import { countersFor, everyVariant, OTHER_METHOD } from '../../src/core/matching/compiled-rule.ts';
import { NO_FACTS, type RequestFacts } from '../../src/core/matching/counted-by.ts';
import { ROUTE_DEFAULTS } from '../../src/core/matching/origin-routes.ts';
import { planRequest } from '../../src/core/matching/plan.ts';
import { contains, parseResource, type Route } from '../../src/core/matching/resource.ts';
import { MAX_LIMITS_OF_A_RULE, MAX_RESOURCES_OF_A_RULE, type Rule } from '../../src/core/matching/rule.ts';
import {
  compileSnapshot,
  SETTINGS_DEFAULTS,
  type SnapshotContent,
  withCounterIds,
} from '../../src/core/matching/snapshot.ts';

const rule = (fields: RuleFields): Rule => createRule({ id: fields.name ?? 'r', name: 'r', ...fields });

interface Asked {
  readonly method?: string;
  readonly userId?: string;
  readonly claims?: Claims;
  readonly facts?: Partial<RequestFacts>;
  readonly content?: Partial<SnapshotContent>;
}

const CALLER = { ip: '192.0.2.1', address: '192.0.2.1' };

async function checksAt(rules: readonly Rule[], matchPath: string, asked: Asked = {}) {
  const content = { tiers: [], lists: [], ...asked.content, rules: await withCounterIds(rules) };
  const request = {
    matchPath,
    method: asked.method ?? 'GET',
    caller: { ...CALLER, userId: asked.userId, claims: asked.claims },
    facts: { ...NO_FACTS, ...asked.facts },
    nowMs: 0,
    seatId: () => '',
  };
  const plan = await planRequest(compileSnapshot('v', content), request);
  const checks = plan.kind === 'checks' ? plan.checks : [];
  const explained = explain(content, request).rules.filter(({ reason }) => reason === 'applies');
  // The explanation, rule by rule, must agree.
  expect(explained.map(({ name }) => name).sort()).toEqual(
    [...new Set(checks.map(({ rule: { name } }) => name))].sort(),
  );
  return checks;
}

const idAt = async (rules: readonly Rule[], path: string, asked?: Asked) =>
  (await checksAt(rules, path, asked)).map(({ id }) => id).join();

describe('a rule per route', () => {
  const rules = [rule({ resource: '/a/*', resources: ['/a/*', '/b/:id', '/a/c'], per: ['route'] })];

  it('has a counter for each of its resources, and the narrowest resource counts', async () => {
    const ids = await Promise.all(['/a/x', '/b/7', '/a/c'].map((path) => idAt(rules, path)));
    expect(new Set(ids).size).toBe(3);
    expect(await idAt(rules, '/b/8')).toBe(ids[1]);
  });

  it('keeps the counter of a resource when others come before it', async () => {
    const other = [rule({ resource: '/z', resources: ['/z', '/b/:other'], per: ['route'] })];
    expect(await idAt(other, '/b/8')).toBe(await idAt(rules, '/b/8'));
  });
});

describe('a rule per method', () => {
  const rules = [rule({ per: ['method'] })];

  it('has a counter for each method, one for GET and HEAD, and one for all unknown methods', async () => {
    const id = (method: string) => idAt(rules, '/x', { method });
    expect(await id('HEAD')).toBe(await id('GET'));
    expect(await id('POST')).not.toBe(await id('GET'));
    expect(await id('MADE-UP')).toBe(await id('BREW'));
  });

  it('appears method by method among the limits of a caller', async () => {
    const snapshot = compileSnapshot('v', { rules: await withCounterIds(rules), tiers: [], lists: [] });
    const told = snapshot.limitsOf(CALLER, 0).map((match) => match.rule.methods.join());
    expect(told).toEqual(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);
  });
});

describe('a key', () => {
  /** The number that docs/inside.md states: 64 rules of five limits. The script keeps 500 counters in a key. */
  const MOST = 320;
  /** Two rules more than share a key, each with as many limits and routes as a rule may have. */
  const largest = (per: Rule['per']) =>
    Array.from({ length: 66 }, (_, ordinal) =>
      rule({
        id: `r${ordinal}`,
        ordinal,
        resource: `/${ordinal}/0`,
        resources: Array.from({ length: MAX_RESOURCES_OF_A_RULE }, (_, i) => `/${ordinal}/${i}`),
        limits: Array.from({ length: MAX_LIMITS_OF_A_RULE }, (_, i) => ({ limit: 9, windowSeconds: i + 1 })),
        per,
      }),
    );

  it.each([[[]], [['route']], [['method']], [['route', 'method']]] as Rule['per'][][])(
    'holds at most 320 counters of a caller, with the largest rules per %j',
    async (per) => {
      const published = await withCounterIds(largest(per));
      const counters = published.flatMap((one) => {
        const other = everyVariant(one).map((variant) => ({ ...variant, method: OTHER_METHOD }));
        return [...everyVariant(one), ...other].flatMap((variant) => countersFor(one, variant));
      });
      const ids = Map.groupBy(counters, groupOf);
      const sizes = [...ids.values()].map((some) => new Set(some.map(({ counterId }) => counterId)).size);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(MOST);
      expect(new Set(counters.map(({ counterId }) => counterId)).size).toBeGreaterThan(MOST);
    },
  );

  it('is the same for all rules of a route and method, so that one request needs one key for them', async () => {
    const resources = ['/a/*', '/b/*'];
    const shape = { resource: '/a/*', resources, per: ['route', 'method'] } as const;
    const rules = [rule({ ...shape, id: 'one' }), rule({ ...shape, id: 'two' })];
    const keys = await Promise.all(
      rules.map(async (one) => (await checksAt([one], '/a/x')).map(({ key }) => key)),
    );
    expect(keys[0]).toEqual(keys[1]);
    expect(keys[0]).not.toEqual((await checksAt(rules.slice(0, 1), '/b/x')).map(({ key }) => key));
  });

  it('is the one of all other counters of a caller, if a rule has no counters of its own for routes', async () => {
    expect((await checksAt([rule({})], '/a/x')).map(({ key }) => key)).toEqual([
      expect.stringMatching(/^weir:\{[^}]+\}$/),
    ]);
  });
});

describe('a rule by several parts', () => {
  const rules = [rule({ scope: 'user', by: ['user', 'header:X-Model'], limit: 10, boundTimes: 3 })];
  const model = (value: string | null) => ({
    facts: { header: (name: string) => (name === 'x-model' ? value : null) },
  });

  it('counts each combination, and all of them against a bound', async () => {
    const one = await checksAt(rules, '/x', { userId: 'ada', ...model('gpt') });
    const other = await checksAt(rules, '/x', { userId: 'ada', ...model('opus') });
    expect(one.map(({ key, limit }) => [key, limit])).toEqual([
      ['weir:{by:=ada/gpt}', 10],
      ['weir:{user:=ada}', 30],
    ]);
    expect(one.map(({ rule: counter }) => counter.policy)).toEqual(['all-user', 'all-user-bound']);
    expect(other[0]?.key).not.toBe(one[0]?.key);
    expect([other[1]?.key, other[1]?.id]).toEqual([one[1]?.key, one[1]?.id]);
  });

  it('keeps values apart that look alike when they are joined', async () => {
    const key = async (userId: string | undefined, value: string | null) =>
      (await checksAt(rules, '/x', { ...(userId !== undefined && { userId }), ...model(value) }))[0]?.key;
    const keys = await Promise.all([
      key('a/b', 'c'),
      key('a', 'b/c'),
      key('@192.0.2.1', ''),
      key(undefined, ''),
      key('a', null),
    ]);
    expect(new Set(keys).size).toBe(5);
  });

  it('has no bound if the client chooses no part', async () => {
    const byOrg = [rule({ scope: 'user', by: ['claim:org', 'country'] })];
    const asked = { userId: 'ada', claims: { org: 'acme' }, facts: { place: () => 'DE' } };
    expect((await checksAt(byOrg, '/x', asked)).map(({ key }) => key)).toEqual(['weir:{by:=acme/DE}']);
  });

  it('takes a parameter from its place in the resource that matched', async () => {
    const byId = [rule({ resource: '/a/:id', resources: ['/a/:id', '/b/c/{id}/*'], by: ['param:id'] })];
    const key = async (path: string) => (await checksAt(byId, path))[0]?.key;
    expect(await key('/a/7')).toBe('weir:{by:=7}');
    expect(await key('/b/c/8/d')).toBe('weir:{by:=8}');
  });

  it('is in a slot of its own, so that a rule by the scope alone applies with it', async () => {
    const both = [rule({ name: 'plain' }), rule({ name: 'parts', by: ['country'] })];
    expect((await checksAt(both, '/x')).map((check) => check.rule.name).sort()).toEqual(['parts', 'plain']);
  });

  it('gives each tier a bound that is a multiple of its own limit', async () => {
    const tiered = [rule({ by: ['header:X-Model'], limit: 1, limitName: 'calls' })];
    const tiers = [{ name: 'free', limits: { calls: 7 }, isDefault: true }];
    expect((await checksAt(tiered, '/x', { content: { tiers } })).map(({ limit }) => limit)).toEqual([7, 70]);
  });
});

describe('a rule for some hosts or routes', () => {
  const host = (name: string) => ({ facts: { host: () => name } });

  it('applies to its hosts, before a rule for all hosts', async () => {
    const rules = [
      rule({ name: 'all' }),
      rule({ name: 'some', hosts: ['api.example.com', '*.eu.example.com'] }),
    ];
    const at = async (name: string) => (await checksAt(rules, '/x', host(name))).map((one) => one.rule.name);
    expect(await at('api.example.com')).toEqual(['some']);
    expect(await at('x.eu.example.com')).toEqual(['some']);
    expect(await at('eu.example.com')).toEqual(['all']);
  });

  it('applies to requests that take its route', async () => {
    const routes = [
      { ...ROUTE_DEFAULTS, id: '1', name: 'shop', host: 'shop.example.com', origin: 'pass' },
      { ...ROUTE_DEFAULTS, id: '2', name: 'rest', origin: 'pass' },
    ];
    const rules = [rule({ routes: ['shop'] })];
    const count = async (name: string) =>
      (await checksAt(rules, '/x', { ...host(name), content: { routes } })).length;
    expect([await count('shop.example.com'), await count('other.example.com')]).toEqual([1, 0]);
  });
});

describe('a resource like /search*', () => {
  it('matches all names that begin with it, and everything under them', async () => {
    const rules = [rule({ resource: '/search*' })];
    const matched = await Promise.all(
      ['/search', '/searches', '/search-all/x', '/search/x', '/sea', '/x/search'].map(
        async (path) => (await checksAt(rules, path)).length,
      ),
    );
    expect(matched).toEqual([1, 1, 1, 1, 0, 0]);
  });

  it.each([
    ['/a*', '/a', true],
    ['/a*', '/ab/*', true],
    ['/a*', '/ab*', true],
    ['/a*', '/:id', false],
    ['/a/*', '/a*', false],
    ['/*', '/a*', true],
    ['/:id', '/a*', false],
    ['/:id/*', '/a*', true],
    ['/x/a*', '/x/*', false],
  ])('%s contains %s: %s', (wide, narrow, expected) => {
    const route = (text: string) => parseResource(text) as Route;
    expect(contains(route(wide), route(narrow))).toBe(expected);
  });
});

describe('a file extension', () => {
  const rules = [rule({ resource: '/login', costs: [{ resource: '/login', cost: 5 }] })];
  const ignoring = { content: { settings: { ...SETTINGS_DEFAULTS, fileExtensions: 'ignored' as const } } };
  const costs = async (path: string, asked?: Asked) =>
    (await checksAt(rules, path, asked)).map(({ cost }) => cost);

  it('is a part of the name, unless the settings say otherwise', async () => {
    expect(await costs('/login.json')).toEqual([]);
    expect(await costs('/login.json', ignoring)).toEqual([5]);
    expect(await costs('/login.tar.gz', ignoring)).toEqual([5]);
    expect(await costs('/login', ignoring)).toEqual([5]);
  });

  it('can be any text, and not only the last one counts', async () => {
    for (const path of ['/login.2', '/login.abcdefghijklmnop', '/login.x-y'])
      expect(await costs(path, ignoring)).toEqual([5]);
    const version = [rule({ resource: '/v1.2' })];
    expect(await checksAt(version, '/v1.2.json', ignoring)).toHaveLength(1);
  });

  it('is no hidden name, and a rule may still name it', async () => {
    const above = [rule({ resource: '/files' })];
    expect(await checksAt(above, '/files/.env', ignoring)).toHaveLength(0);
    const hidden = [rule({ resource: '/files/.env' })];
    for (const [path, count] of [
      ['/files/.env', 1],
      ['/files/.env.json', 1],
      ['/files', 0],
      ['/files/', 0],
    ] as const)
      expect([path, await checksAt(hidden, path, ignoring)]).toEqual([
        path,
        Array(count).fill(expect.anything()),
      ]);
    const named = [rule({ resource: '/login.json' })];
    expect(await checksAt(named, '/login.json', ignoring)).toHaveLength(1);
    expect(await checksAt(named, '/login', ignoring)).toHaveLength(0);
  });
});
