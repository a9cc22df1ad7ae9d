// A set of rules of any size, and requests for it. The requests match only the first ten rules, of every kind.
// All others are beside them: siblings in the same folders, other services, and overrides and tiers in the same slots.
// So a request has the same answer in every set, and only the number of rules differs.

import { createRandom, type Random } from '../../local/random.ts';
import type { Caller } from '../../src/core/matching/caller.ts';
import { type FlatRule, parseFlatRule } from '../../src/core/matching/flat-rule.ts';
import { SCOPES, type Tier } from '../../src/core/matching/rule.ts';
import type { MatchRequest, PublishedRule, SnapshotContent } from '../../src/core/matching/snapshot.ts';

const SEED = 7;
const NOW_MS = 1_800_000_000_000;

const TIERS: readonly Tier[] = [
  { name: 'free', limits: { requests: 100, exports: 5 }, isDefault: true },
  { name: 'premium', limits: { requests: 5000, exports: 100 }, isDefault: false },
  { name: 'enterprise', limits: { requests: 100_000, exports: 1000 }, isDefault: false },
];

type Fields = Partial<FlatRule> & Pick<FlatRule, 'resource' | 'scope'>;

const SEVERAL: Partial<FlatRule> = {
  limit: null,
  windowSeconds: null,
  limits: [
    { limit: 20, windowSeconds: 1 },
    { limit: 1000, windowSeconds: 3600 },
  ],
};

const MET: readonly Fields[] = [
  { resource: '/*', scope: 'global', limit: 1_000_000 },
  { resource: '/*', scope: 'ip', ...SEVERAL },
  { resource: '/*', scope: 'ip', subjects: ['203.0.113.1', '203.0.113.2'] },
  { resource: '/api/*', scope: 'apiKey', limit: null, limitName: 'requests' },
  {
    resource: '/api/v1/*',
    scope: 'tenant',
    tiers: ['free', 'premium', 'enterprise'],
    costs: [
      { resource: '/api/v1/search', cost: 5 },
      { resource: '/api/v1/orders', methods: ['POST'], cost: 3 },
    ],
  },
  { resource: '/api/v1/users/:id', scope: 'user', percent: 50, validUntilMs: 2 * NOW_MS },
  { resource: '/api/v1/users/:id/orders/*', scope: 'user', methods: ['GET', 'POST'] },
  { resource: '/api/:version/search', scope: 'user', methods: ['GET'], replaces: true, per: ['method'] },
  { resource: '/api/v1/orders', scope: 'user', subjects: ['user-1', 'user-2'], methods: ['POST'] },
  { resource: '/log*', scope: 'ip', methods: ['POST'], by: ['ip', 'header:X-Model'] },
];

/** The forms of the other rules, in turns. */
const FORMS: readonly Partial<FlatRule>[] = [
  {},
  {},
  SEVERAL,
  { costs: [{ resource: '/api/v1/search', cost: 5 }] },
  { replaces: true },
  { action: 'allow' },
  { hosts: ['elsewhere.example.com'] },
  { per: ['method'], resources: [] },
  { algorithm: 'fixed-window', window: 'day', windowSeconds: null },
  {
    ...{ action: 'multiply', times: 2, methods: [] },
    ...{ algorithm: null, limit: null, limitName: null, windowSeconds: null },
  },
];

export function createContent(count: number): SnapshotContent {
  return { rules: createBodies(count).map(toRule), tiers: TIERS, lists: [] };
}

/** Rules as people write them, without what only the publisher adds. */
export function createBodies(count: number) {
  const random = createRandom(SEED);
  return Array.from({ length: count }, (_, i) =>
    toBody(MET[i] ?? { ...beside(random, i), ...FORMS[i % FORMS.length] }, i),
  );
}

const toBody = (fields: Fields, i: number) => ({
  name: `rule ${i}`,
  algorithm: 'sliding-window-counter' as const,
  limit: 100,
  windowSeconds: 60,
  ...fields,
});

const toRule = (body: ReturnType<typeof toBody>, ordinal: number): PublishedRule =>
  parseFlatRule({
    id: `00000000-0000-4000-8000-${String(ordinal).padStart(12, '0')}`,
    ordinal,
    counterId: ordinal.toString(36).padStart(8, '0'),
    ...(body.limits && {
      counterIds: body.limits.map((_, i) => `${i}${ordinal.toString(36).padStart(7, '0')}`),
    }),
    ...body,
  });

/** Four in ten are overrides or tiers in slots that requests meet. The others have their own resources. */
function beside(random: Random, i: number): Fields {
  const scope = pick(random, SCOPES);
  const kinds: readonly (() => Fields)[] = [
    () => ({ resource: `/api/v1/things-${i}`, scope, methods: [pick(random, ['GET', 'POST', 'PUT'])] }),
    () => ({ resource: `/api/v1/things-${i}/:id`, scope }),
    () => ({ resource: `/api/v1/users/:id/things-${i}/*`, scope }),
    () => ({ resource: `/api/v${i}/search/:index`, scope }),
    () => ({ resource: `/service-${i}/*`, scope, tiers: [pick(random, TIERS).name] }),
    () => ({ resource: `/service-${i}/:region/items/:item`, scope, limit: null, limitName: 'requests' }),
    () => ({ resource: '/api/v1/orders', scope: 'user', subjects: [`other-${i}`], priority: 50 }),
    () => ({ resource: '/api/v1/orders', scope: 'user', subjects: [`other-${i}`], methods: ['POST'] }),
    () => ({ resource: '/api/v1/orders', scope: 'user', subjects: [`team-${i}-*`] }),
    () => ({ resource: '/*', scope: 'ip', subjects: [`198.51.${(i >> 8) & 255}.${i & 255}`] }),
    () => ({ resource: '/api/*', scope: 'apiKey', tiers: [`partner-${i}`], limitName: 'exports' }),
  ];
  return pick(random, kinds)();
}

const PATHS: readonly (readonly [method: string, matchPath: string])[] = [
  ['GET', '/api/v1/users/4711'],
  ['GET', '/api/v1/users/4711/orders/17/items'],
  ['GET', '/api/v1/search'],
  ['POST', '/api/v1/orders'],
  ['POST', '/login'],
  ['GET', '/static/app.js'],
];

export function createRequests(count: number): MatchRequest[] {
  const random = createRandom(SEED + 1);
  return Array.from({ length: count }, () => {
    const [method, matchPath] = pick(random, PATHS);
    return { method, matchPath, caller: createCaller(random), nowMs: NOW_MS };
  });
}

function createCaller(random: Random): Caller {
  const address = `203.0.113.${Math.floor(random() * 256)}`;
  const number = Math.floor(random() * 1000);
  return {
    ip: address,
    address,
    userId: `user-${number}`,
    apiKeyId: `key-${number}`,
    tenantId: `tenant-${number % 50}`,
    tier: pick(random, TIERS).name,
  };
}

function pick<T>(random: Random, list: readonly T[]): T {
  const picked = list[Math.floor(random() * list.length)];
  if (picked === undefined) throw new Error('there is nothing to pick from');
  return picked;
}
