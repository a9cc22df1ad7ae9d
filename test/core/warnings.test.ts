import { describe, expect, it } from 'vitest';
import { createRule, type RuleFields } from '../../local/rules.ts';
import { findWarnings } from '../../src/authoring/warnings.ts';
import type { Rule, Tier } from '../../src/core/matching/rule.ts';

const rule = (id: string, fields: RuleFields = {}): Rule =>
  createRule({ id, name: id.toUpperCase(), resource: '/users/:id', scope: 'user', ...fields });

const TIERS: Tier[] = [
  { name: 'free', limits: { requests: 100 }, isDefault: true },
  { name: 'premium', limits: { requests: null, exports: 5 }, isDefault: false },
];

const REGIONS = ['us', 'eu', 'ap'].map((name) => ({ name, share: 1 }));
const warningsOf = (...rules: Rule[]) => findWarnings({ rules, tiers: TIERS, regions: REGIONS });
const tiesOf = (...rules: Rule[]) => warningsOf(...rules).map(({ ruleIds }) => ruleIds);
const messagesOf = (...rules: Rule[]) => warningsOf(...rules).map(({ message }) => message);

describe('warnings about one rule', () => {
  it('are all warnings that name that rule', () => {
    const rules = [
      rule('a'),
      rule('b'),
      rule('c', { resource: '/c' }),
      rule('d', { resource: '/c' }),
      rule('e', { resource: '/e', policy: 'c-user', tiers: ['gone'] }),
    ];
    const all = warningsOf(...rules);
    for (const { id } of rules)
      expect(
        findWarnings({ rules, tiers: TIERS, regions: REGIONS, concerns: [id] }).filter(names(id)),
      ).toEqual(all.filter(names(id)));
    expect(all.length).toBeGreaterThan(3);
  });

  const names =
    (id: string) =>
    ({ ruleIds }: { readonly ruleIds: readonly string[] }) =>
      ruleIds.includes(id);
});

describe('a tie', () => {
  it('is reported, with the winner first', () => {
    const methods = { methods: ['GET', 'PUT'] };
    expect(
      warningsOf(rule('b', { resource: '/Users/{name}', methods: ['GET', 'POST'] }), rule('a', methods)),
    ).toEqual([
      {
        ruleIds: ['a', 'b'],
        message:
          '"A" and "B" are tied: same scope, resource and priority, and both can apply to one request. ' +
          'Only "A" applies, because it has the smaller id. To choose which one applies, give them different ' +
          'priorities. To apply both, put both limits into `limits` of one rule.',
      },
    ]);
  });

  it.each<[string, RuleFields]>([
    ['another scope', { scope: 'ip' }],
    ['another resource', { resource: '/users/:id/*' }],
    ['another priority', { priority: 1, methods: ['GET'] }],
    ['another specificity', { methods: ['GET'] }],
  ])('is not reported for %s', (_, fields) => expect(tiesOf(rule('a'), rule('b', fields))).toEqual([]));

  it('needs a request that both rules could apply to', () => {
    expect(tiesOf(rule('a', { methods: ['GET'] }), rule('b', { methods: ['POST'] }))).toEqual([]);
    expect(tiesOf(rule('a', { methods: ['GET', 'PUT'] }), rule('b', { methods: ['POST', 'PUT'] }))).toEqual([
      ['a', 'b'],
    ]);
    expect(tiesOf(rule('a', { methods: ['GET'] }), rule('b', { methods: ['HEAD'] }))).toEqual([['a', 'b']]);
    expect(tiesOf(rule('a', { tiers: ['free'] }), rule('b', { tiers: ['premium'] }))).toEqual([]);
    expect(tiesOf(rule('a', { tiers: ['free', 'premium'] }), rule('b', { tiers: ['premium'] }))).toEqual([
      ['a', 'b'],
    ]);
    expect(tiesOf(rule('a', { subjects: ['x'] }), rule('b', { subjects: ['y'] }))).toEqual([]);
    expect(tiesOf(rule('a', { subjects: ['x', 'y'] }), rule('b', { subjects: ['y'] }))).toEqual([['a', 'b']]);
    const bothKinds = (tiers: string[], methods: string[]) => ({ subjects: ['x'], tiers, methods });
    expect(tiesOf(rule('a', bothKinds(['free'], ['GET'])), rule('b', bothKinds(['free'], ['POST'])))).toEqual(
      [],
    );
    expect(
      tiesOf(rule('a', bothKinds(['free'], ['GET'])), rule('b', bothKinds(['premium'], ['GET']))),
    ).toEqual([]);
  });

  it('is reported once for each rule that wins, however many subjects the rules share', () => {
    const ab = rule('c', { subjects: ['x', 'y', 'z'] });
    expect(tiesOf(ab, rule('a', { subjects: ['x', 'y'] }), rule('b', { subjects: ['w', 'z'] }))).toEqual([
      ['a', 'b', 'c'],
    ]);
    const wider = rule('c', { subjects: ['x', 'y', 'z', 'v'] });
    expect(tiesOf(wider, rule('a', { subjects: ['x', 'y'] }), rule('b', { subjects: ['z'] }))).toEqual([
      ['a', 'c'],
      ['b', 'c'],
    ]);
  });
});

describe('a rule that never wins', () => {
  it('is reported with the rule that wins, and with what would make both apply', () => {
    expect(warningsOf(rule('a', { priority: 1 }), rule('b', { windowSeconds: 3600 }))).toEqual([
      {
        ruleIds: ['a', 'b'],
        message:
          '"B" never applies: "A" of the same scope and resource comes first for every request. To apply ' +
          'both, put both limits into `limits` of one rule. To give some callers another limit, name them in `subjects`, `tenants` or `tiers`.',
      },
    ]);
  });

  it('may have lost to several rules together', () => {
    const lost = rule('c', { methods: ['GET', 'POST'] });
    const [get, post] = [
      rule('a', { methods: ['GET'], priority: 1 }),
      rule('b', { methods: ['POST'], priority: 1 }),
    ];
    expect(tiesOf(lost, get, post)).toEqual([['a', 'b', 'c']]);
    expect(tiesOf(lost, get)).toEqual([]);
    const everyTier = ['free', 'premium'].map((tier) => rule(tier, { tiers: [tier] }));
    expect(tiesOf(rule('z'), ...everyTier)).toEqual([['free', 'premium', 'z']]);
    expect(tiesOf(rule('z'), rule('free', { tiers: ['free'] }))).toEqual([]);
  });

  it('is not a rule that wins for some method, tier or subject', () => {
    const better = { priority: 1 };
    expect(tiesOf(rule('a', { ...better, methods: ['GET'] }), rule('b'))).toEqual([]);
    expect(tiesOf(rule('a', { ...better, subjects: ['ada'] }), rule('b'))).toEqual([]);
    expect(tiesOf(rule('a', { ...better, tiers: ['free'] }), rule('b', { subjects: ['ada'] }))).toEqual([]);
    expect(tiesOf(rule('a', { ...better, action: 'log' }), rule('b'))).toEqual([]);
    expect(tiesOf(rule('a', { ...better, percent: 50 }), rule('b'))).toEqual([]);
    expect(tiesOf(rule('a', { ...better, validUntilMs: 5 }), rule('b'))).toEqual([]);
  });

  it('may have lost to a pattern', () => {
    const better = rule('a', { priority: 1, subjects: ['acme-*'] });
    expect(tiesOf(better, rule('b', { subjects: ['acme-1', 'acme-eu-*'] }))).toEqual([['a', 'b']]);
    expect(tiesOf(better, rule('b', { subjects: ['acme-1', 'ac*'] }))).toEqual([]);
  });
});

describe('the name that clients read', () => {
  it('is reported if rules of different slots share it', () => {
    expect(messagesOf(rule('a', { policy: 'x' }), rule('b', { policy: 'x', resource: '/y' }))).toEqual([
      'Clients read "x" as the policy of "A" and of "B", which limit different things. ' +
        'Give one of them another policy.',
    ]);
    expect(messagesOf(rule('a', { policy: 'x' }), rule('b', { policy: 'x', subjects: ['u'] }))).toEqual([]);
    expect(
      messagesOf(rule('a', { policy: 'x' }), rule('b', { policy: 'x', resource: '/y', action: 'log' })),
    ).toEqual([]);
  });
});

describe('tiers', () => {
  it('that do not exist are reported', () => {
    expect(messagesOf(rule('a', { tiers: ['free', 'gold', 'toString'] }))).toEqual([
      '"A" names tiers that do not exist: gold, toString.',
    ]);
  });

  it('that lack the limit of a rule without its own limit are reported', () => {
    expect(messagesOf(rule('a', { limit: null, limitName: 'exports' }))).toEqual([
      '"A" has no limit of its own, and these tiers have no limit "exports": free. It does not limit their callers.',
    ]);
    expect(messagesOf(rule('a', { limit: null, limitName: 'exports', tiers: ['premium'] }))).toEqual([]);
    expect(messagesOf(rule('a', { limit: 7, limitName: 'exports' }))).toEqual([]);
    expect(messagesOf(rule('a', { limit: null, limitName: 'requests' }))).toEqual([]);
  });

  it('that all lack the limit of a rule are reported, whether or not the rule has its own limit', () => {
    expect(messagesOf(rule('a', { limit: null, limitName: 'reqests' }))).toEqual([
      '"A" takes the limit "reqests", which no tier has: it limits nobody.',
    ]);
    expect(messagesOf(rule('a', { limitName: 'toString' }))).toEqual([
      '"A" takes the limit "toString", which no tier has: its own limit of 10 applies.',
    ]);
  });
});

describe('subjects of scope ip', () => {
  it.each(['192.0.2.1', '2001:db8:1:2::/64', '2001:db8::/56'])('%s is fine', (subject) =>
    expect(warningsOf(rule('a', { scope: 'ip', subjects: [subject] }))).toEqual([]),
  );

  it.each(['2001:db8::1', '2001:DB8::/64', '::ffff:192.0.2.1', '192.0.2.0/24', '192.0.2.1/32', 'ada'])(
    '%s matches no caller',
    (subject) =>
      expect(messagesOf(rule('a', { scope: 'ip', subjects: [subject] }))).toEqual([
        `"A" names IPs in a spelling that never matches a caller: ${subject}. ` +
          'Write IPv4 as 192.0.2.1, and IPv6 by its prefix as 2001:db8:1:2::/64.',
      ]),
  );
});

describe('shares', () => {
  it('for regions that do not exist are reported', () => {
    expect(messagesOf(rule('a', { shares: { us: 1, mars: 1, moon: 0 } }))).toEqual([
      '"A" has shares for regions that do not exist: mars, moon. They are ignored.',
    ]);
    expect(messagesOf(rule('a', { shares: { us: 2, ap: 1 } }))).toEqual([]);
  });

  it('of which none is for an existing region are reported', () => {
    expect(messagesOf(rule('a', { shares: { us: 0, mars: 1 } }))).toEqual([
      '"A" has shares for regions that do not exist: mars. They are ignored.',
      '"A" has no share for any region that exists: the shares of REGIONS apply instead.',
    ]);
  });
});

describe('10,000 rules', () => {
  const many = (fields: (i: number) => RuleFields) =>
    Array.from({ length: 10_000 }, (_, i) => rule(String(i).padStart(5, '0'), fields(i)));

  it.each<[string, Rule[], number]>([
    ['each with a resource of its own', many((i) => ({ resource: `/x/${i}` })), 0],
    ['each an override in one slot', many((i) => ({ subjects: [`user-${i}`] })), 0],
    ['all the same', many(() => ({})), 9999],
  ])('are checked in less than five seconds of processor time, %s', (_, rules, count) => {
    const before = process.cpuUsage();
    expect(warningsOf(...rules)).toHaveLength(count);
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1e6).toBeLessThan(5);
  });
});

describe('a rule for tenants', () => {
  it('never applies if a better rule has all its tenants, and is tied with one that shares a tenant', () => {
    const better = rule('a', { tenants: ['acme', 'globex'], priority: 1 });
    expect(tiesOf(better, rule('b', { tenants: ['acme'] }))).toEqual([['a', 'b']]);
    expect(tiesOf(better, rule('b', { tenants: ['initech'] }))).toEqual([]);
    expect(tiesOf(rule('a', { tenants: ['acme', 'globex'] }), rule('b', { tenants: ['globex'] }))).toEqual([
      ['a', 'b'],
    ]);
    const ada = (tenant: string) => ({ subjects: ['ada'], tenants: [tenant] });
    expect(tiesOf(rule('a', ada('acme')), rule('b', ada('globex')))).toEqual([]);
  });
});

describe('a subject that nobody has', () => {
  it('is named, with what it means', () => {
    const rules = [
      rule('a', { subjects: ['ada', 'bob', 'acme-*'], tenants: ['acme'] }),
      rule('b', { scope: 'apiKey', subjects: ['k1'], resource: '/b' }),
      rule('c', { scope: 'ip', subjects: ['192.0.2.1'], resource: '/c' }),
    ];
    const unknown = new Set(['user ada', 'tenant acme', 'apiKey k1', 'user k1']);
    expect(
      findWarnings({ rules, tiers: TIERS, regions: REGIONS, unknown }).map((one) => one.message),
    ).toEqual([
      '"A" names users that Weir does not know: ada. It applies to them only if tokens name them: check the spelling.',
      '"A" names tenants that Weir does not know: acme. It applies to them only if tokens name them: check the spelling.',
      '"B" names API keys that Weir does not know: k1. It never applies to them: name keys by their ids.',
    ]);
  });
});

describe('a rule that is over', () => {
  it('is reported from its end on', () => {
    const rules = [rule('a', { validUntilMs: 1_000 })];
    const at = (nowMs: number) => findWarnings({ rules, tiers: TIERS, regions: REGIONS, nowMs });
    expect(at(999)).toEqual([]);
    expect(at(1_000)).toEqual([
      { ruleIds: ['a'], message: '"A" has ended (validUntil 1970-01-01T00:00:01.000Z): it never applies.' },
    ]);
  });
});
