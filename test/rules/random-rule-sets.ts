// Random sets of rules and tiers, and requests that match them.
import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type { Caller } from '../../src/core/matching/caller.ts';
import { NO_FACTS } from '../../src/core/matching/counted-by.ts';
import { type FlatRule, RULE_DEFAULTS, type WrittenLimit } from '../../src/core/matching/flat-rule.ts';
import { canonicalPath } from '../../src/core/matching/path.ts';
import { type Per, type RouteCost, RULE_SCOPES, type Tier } from '../../src/core/matching/rule.ts';
import type { MatchRequest } from '../../src/core/matching/snapshot.ts';

/** The database orders uuids like their text. */
const IDS = Array.from({ length: 25 }, () => randomUUID());

const MOMENTS_MS = ['2030-01-01', '2030-02-01', '2030-03-01'].map(Date.parse);
const isBackwards = ({ validFromMs, validUntilMs }: Pick<FlatRule, 'validFromMs' | 'validUntilMs'>) =>
  validFromMs !== null && validUntilMs !== null && validFromMs >= validUntilMs;

export type RuleRow = FlatRule & { readonly enabled: boolean };

/** Each value is rare, so that rules have few conditions and often match. */
const someOf = (...values: string[]) =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<string[]>([]) },
    { weight: 2, arbitrary: fc.subarray(values, { minLength: 1, maxLength: 2 }) },
  );

const segment = fc.constantFrom('a', 'A', 'b', 'c.d', 'x:y', 'c+d', ':id', ':other', '{id}', '{Name}');
const resource = fc
  .tuple(
    fc.uniqueArray(segment, { maxLength: 2, selector: (text) => text.replace(/[:{}]/g, '').toLowerCase() }),
    fc.constantFrom('', '', '/', '/*', '/*'),
  )
  .map(([segments, end]) => segments.map((text) => `/${text}`).join('') + end || '/');

/** Also names that begin alike. */
const ruleResource = fc.oneof(
  { weight: 4, arbitrary: resource },
  { weight: 1, arbitrary: fc.constantFrom('/a*', '/B*', '/a/b*', '/:id/c*', '/{id}/c.d*', '/c*') },
);

const limits = fc
  .record({
    limit: fc.constantFrom(null, 1, 2, 3),
    limitName: fc.constantFrom(null, 'requests', 'exports'),
    claim: fc.constantFrom(null, null, 'quota'),
  })
  .map(({ claim, ...one }) => ({
    ...one,
    ...(claim !== null && one.limit !== null && { limitClaim: claim, limitMax: 7 }),
  }))
  .filter(({ limit, limitName }) => limit !== null || limitName !== null);

const several = fc.constantFrom<WrittenLimit[][]>(
  [],
  [],
  [
    { limit: 4, windowSeconds: 1, limitClaim: 'burst', limitMax: 1_000 },
    { limitName: 'exports', windowSeconds: 60 },
    { limit: 5, limitName: 'requests', windowSeconds: 3600 },
    { limit: 6, window: 'month', timeZone: 'Europe/Berlin', anchorDay: 15 },
  ],
);
const costs = fc.oneof(
  { weight: 2, arbitrary: fc.constant<RouteCost[]>([]) },
  {
    weight: 1,
    arbitrary: fc.array(
      fc
        .record({ resource, methods: someOf('GET', 'POST'), cost: fc.integer({ min: 2, max: 9 }) })
        .map(({ methods, ...one }) => (methods.length > 0 ? { ...one, methods } : one)),
      { maxLength: 5 },
    ),
  },
);

/** A rule that multiplies has none of these. */
const OF_CALLERS = { methods: [], hosts: [], by: [], per: [], replaces: false };

const ruleFields = fc
  .record({
    resource: ruleResource,
    others: fc.array(ruleResource, { maxLength: 2 }),
    by: fc.constantFrom<string[][]>([], [], [], ['country'], ['user', 'header:X-Model']),
    per: fc.constantFrom<Per[][]>([], [], ['route', 'method']),
    hosts: someOf('a.example', '*.example'),
    scope: fc.constantFrom(...RULE_SCOPES),
    action: fc.constantFrom('reject', 'reject', 'reject', 'log', 'allow', 'multiply'),
    replaces: fc.constantFrom(false, false, false, true),
    several,
    costs,
    methods: someOf('GET', 'HEAD', 'POST'),
    tiers: someOf('free', 'premium', 'gone'),
    tenants: someOf('u1', 'u2', 'u*'),
    subjects: someOf('u1', 'u2', '192.0.2.1', 'u*', '*'),
    percent: fc.constantFrom(100, 100, 100, 40),
    validFromMs: fc.constantFrom(null, null, ...MOMENTS_MS),
    validUntilMs: fc.constantFrom(null, null, ...MOMENTS_MS),
    priority: fc.integer({ min: 1, max: 3 }),
    enabled: fc.constantFrom(true, true, true, false),
    limits,
    window: fc.constantFrom(
      { windowSeconds: 60, window: null, timeZone: null },
      { windowSeconds: null, window: 'day' as const, timeZone: 'Asia/Tokyo' },
    ),
  })
  .map(({ action, ...others }) => ({
    ...others,
    action: others.scope === 'all' && action !== 'multiply' ? ('allow' as const) : action,
  }))
  .map(({ limits, several, subjects, tenants, others, window, ...fields }) => ({
    ...fields,
    resources: others.length > 0 ? [fields.resource, ...others] : [],
    ...(several.length > 0 ? { limits: several } : { ...limits, ...window }),
    ...(fields.scope === 'all' && { percent: 100 }),
    ...(fields.scope === 'global' && {
      percent: 100,
      by: fields.by.filter((part) => part !== 'header:X-Model'),
    }),
    ...(isBackwards(fields) && { validUntilMs: null }),
    ...(fields.action === 'multiply' && { ...OF_CALLERS, times: fields.priority / 2 }),
    subjects: subjects.filter(
      (one) => !['global', 'all'].includes(fields.scope) && !(fields.scope === 'ip' && one.endsWith('*')),
    ),
    tenants: tenants.filter(
      () =>
        !(fields.scope === 'tenant' && subjects.length > 0) &&
        !(fields.action === 'multiply' && ['ip', 'global'].includes(fields.scope)),
    ),
  }));

export const ruleSet = fc.array(ruleFields, { minLength: 1, maxLength: IDS.length, size: 'max' }).map((set) =>
  set.map((fields, i): RuleRow => {
    const id = IDS[i] ?? '';
    return {
      ...RULE_DEFAULTS,
      ...fields,
      id,
      name: `rule ${i}`,
      algorithm: 'fixed-window',
      ordinal: i,
      counterId: id,
    };
  }),
);

/** The rules of customers on few paths, so that exceptions and factors for every scope meet many limits. */
export const customerRuleSet = ruleSet.map((set) =>
  set.map(({ scope, action, ...row }, i): RuleRow => {
    const isForAll = row.subjects.length === 0 && row.percent === 100 && i % 3 === 0;
    const wanted = isForAll ? (['allow', 'multiply'] as const)[i % 2] : undefined;
    return {
      ...row,
      ...{ resource: ['/*', '/a/*', '/a'][i % 3 === 0 ? (i / 3) % 3 : i % 3] ?? '', resources: [], per: [] },
      ...{ methods: [], hosts: [], costs: [], validFromMs: null, validUntilMs: null, enabled: true },
      ...(wanted ? { scope: 'all', action: wanted, by: [], replaces: false } : { scope, action }),
      ...(wanted === 'multiply' && { times: 2 + i }),
      ...(wanted === 'allow' && { times: null }),
    };
  }),
);

const tierLimits = fc.dictionary(fc.constantFrom('requests', 'exports'), fc.constantFrom(null, 10, 20), {
  noNullPrototype: true,
});
export const tierSet = fc
  .tuple(fc.subarray(['free', 'premium']), tierLimits, tierLimits, fc.constantFrom('free', 'premium', ''))
  .map(([names, first, second, defaultName]) =>
    names.map(
      (name): Tier => ({
        name,
        limits: name === 'free' ? first : second,
        isDefault: name === defaultName,
      }),
    ),
  );

export const tenantLimitSet = fc.dictionary(fc.constantFrom('u1', 'u2'), tierLimits, {
  noNullPrototype: true,
});

const claim = fc.constantFrom(
  '5',
  '007',
  '900',
  '99999999999999999999',
  '0',
  '-3',
  '1.5',
  '1e3',
  ' 4',
  '4\n',
  'x',
  '',
);
const optionalId = fc.constantFrom(undefined, 'u1', 'u2', '192.0.2.1');
const caller: fc.Arbitrary<Caller> = fc.record({
  ip: fc.constantFrom('192.0.2.1', '192.0.2.2'),
  address: fc.constant('192.0.2.1'),
  userId: optionalId,
  apiKeyId: optionalId,
  tenantId: optionalId,
  tier: fc.constantFrom(undefined, 'free', 'premium', 'gone'),
  claims: fc.option(fc.dictionary(fc.constantFrom('quota', 'burst'), claim, { noNullPrototype: true }), {
    nil: undefined,
  }),
});
const path = fc
  .array(fc.constantFrom('a', 'B', 'b', 'c.d', 'cxd', 'c+d', 'x:y', 'é', '_weir', '.', '..', 'a;v=1'), {
    maxLength: 4,
  })
  .map((segments) => matchPathOf(`/${segments.join('/')}`));
export const request: fc.Arbitrary<MatchRequest> = fc.record({
  matchPath: path,
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT'),
  facts: fc
    .constantFrom('a.example', 'b.example', 'other')
    .map((host) => ({ ...NO_FACTS, host: () => host })),
  caller,
  nowMs: fc.constantFrom(0, ...MOMENTS_MS, Date.parse('2031-01-01')),
});

/** On the paths of `customerRuleSet`. */
export const customerRequest = fc
  .record({ asked: request, path: fc.constantFrom('/', '/a', '/a/b') })
  .map(({ asked, path }): MatchRequest => ({ ...asked, matchPath: path }));

function matchPathOf(rawPath: string): string {
  const canonical = canonicalPath(new URL(rawPath, 'http://origin').pathname);
  if (!canonical.ok) throw new Error(canonical.reason);
  return canonical.matchPath;
}
