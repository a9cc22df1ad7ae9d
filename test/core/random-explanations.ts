// Random rules, tiers and requests. They have few values, so that rules often match requests.

import fc from 'fast-check';
import { createRule, type RuleFields } from '../../local/rules.ts';
import type { ExplainContent } from '../../src/authoring/explain.ts';
import type { PublishedRule } from '../../src/core/matching/compiled-rule.ts';
import type { WrittenLimit } from '../../src/core/matching/flat-rule.ts';
import { EVERY_SCOPE, type RouteCost, type Rule, SCOPES, type Tier } from '../../src/core/matching/rule.ts';

export type GivenRule = PublishedRule & ExplainContent['rules'][number];
export type GivenFields = RuleFields & { readonly enabled?: boolean | undefined };

export const rule = (fields: GivenFields & Pick<Rule, 'id'>): GivenRule => ({
  ...createRule({ name: `rule ${fields.id}`, ...fields }),
  enabled: fields.enabled,
});

const someOf = (...values: string[]) =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<string[]>([]) },
    { weight: 1, arbitrary: fc.subarray(values, { minLength: 1, maxLength: 2 }) },
  );

/** A part of the exceptions is for every scope. */
export const anyRule = fc
  .record({
    resource: fc.constantFrom(
      ...[
        '/*',
        '/',
        '/a',
        '/A/',
        '/a/*',
        '/:x',
        '/{y}',
        '/:x/*',
        '/a/:x',
        '/:x/b',
        '/a/b',
        '/a/:x/*',
        '/{p}/{q}',
      ],
    ),
    resources: fc.constantFrom<string[][]>([], [], ['/*', '/a/*'], ['/a', '/:x/b', '/a/b']),
    scope: fc.constantFrom(...SCOPES),
    methods: someOf('GET', 'HEAD', 'POST'),
    tiers: someOf('free', 'premium', 'gone'),
    tenants: someOf('u1', 'u*'),
    subjects: someOf('u1', 'u2', '192.0.2.1', 'u*'),
    percent: fc.constantFrom(100, 100, 50),
    validUntilMs: fc.constantFrom(null, null, 0, 1),
    priority: fc.integer({ min: 1, max: 2 }),
    limit: fc.constantFrom(null, 1, 2),
    limitName: fc.constantFrom(null, 'requests', 'exports'),
    limitClaim: fc.constantFrom(null, null, 'quota'),
    limitMax: fc.constant(7),
    enabled: fc.boolean(),
    action: fc.constantFrom('reject', 'reject', 'log', 'allow'),
    replaces: fc.constantFrom(false, false, true),
    limits: fc.constantFrom<WrittenLimit[][]>(
      [],
      [],
      [
        { limit: 5, windowSeconds: 1 },
        { limit: 6, limitName: 'exports', windowSeconds: 60, algorithm: 'gcra' },
      ],
    ),
    costs: fc.constantFrom<RouteCost[][]>(
      [],
      [],
      [
        { resource: '/a/*', cost: 2 },
        { resource: '/a/b', methods: ['POST'], cost: 3 },
      ],
    ),
  })
  .map((fields) =>
    fields.action === 'allow' && fields.costs.length > 0
      ? { ...fields, scope: EVERY_SCOPE, subjects: [], percent: 100 }
      : fields,
  );

export const anyTiers = fc.subarray<Tier>([
  { name: 'free', limits: { requests: 100, exports: null }, isDefault: true },
  { name: 'premium', limits: { requests: null }, isDefault: false },
]);

const anId = fc.constantFrom(undefined, 'u1', 'u2', '192.0.2.1');
export const anyRequest = fc.record({
  matchPath: fc.constantFrom(
    '/',
    '/a',
    '/b',
    '/a/b',
    '/a/c',
    '/x/b',
    '/a/b/c',
    '/_weir',
    '/_weir/b',
    '/a//b',
  ),
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT'),
  caller: fc.record({
    ip: fc.constantFrom('192.0.2.1', '192.0.2.2'),
    address: fc.constant('192.0.2.1'),
    userId: anId,
    apiKeyId: anId,
    tenantId: anId,
    tier: fc.constantFrom(undefined, 'free', 'premium', 'gone'),
    claims: fc.constantFrom(undefined, {}, { quota: '3' }, { quota: '99' }, { quota: 'x' }),
  }),
  nowMs: fc.constant(0),
});
