// For every constraint of the table `rules`: rows that break this constraint and no other, and rows that just keep it.
import { type Case, each, long, pkey, TRILLION } from './row-cases.ts';

const YEAR = 366 * 86_400;
const DAY = { window_seconds: null, window: 'day' };
const MONTH = { ...DAY, window: 'month' };
const MULTIPLY = { action: 'multiply', times: 2 };
const SEAT = { algorithm: 'concurrency', window_seconds: 30 };
const THROTTLE = { action: 'throttle', algorithm: 'leaky-bucket' };
const SEVERAL = { limit: null, window_seconds: null, limits: '[{"limit": 1, "windowSeconds": 1}]' };
const NO_PARTS = ['{}', '{"eu": 0}', '{"eu": -1, "us": 1}', '{"eu": "1"}', '{"eu": 1, "us": null}'];
const PARTS = ['{"eu": 0.5}', '{"eu": 0, "us": 3}'];

export const RULE_CASES: Readonly<Record<string, Case>> = {
  rules_pkey: pkey('rules'),
  rules_name_unique: pkey('rules', 'name'),
  rules_ordinal: pkey('rules', 'ordinal'),
  rules_name_has_no_control_characters: each(
    'name',
    ['a\nb', '\u0001', 'x\u007f', '\u0085', 'a\u2028b', 'a\u2029b'],
    ['a b', 'ünï\u00a0©', '👩\u200d🚀'],
  ),
  rules_name_is_short: each('name', ['', long(129)], ['x', long(128)]),
  rules_policy_is_a_slug: each(
    'policy',
    ['', 'Search', '-x', 'a b', 'x\n', 'x'.repeat(64)],
    ['search', '7.a_b-', 'x'.repeat(63), null],
  ),
  rules_has_an_algorithm: {
    refused: [{ algorithm: null }, { algorithm: null, ...SEVERAL }],
    taken: [{ algorithm: null, action: 'allow' }],
  },
  rules_times_are_of_multiply: {
    refused: [{ times: 2 }, { action: 'multiply' }],
    taken: [{ ...MULTIPLY, algorithm: null, limit: null, window_seconds: null }],
  },
  rules_times_are_positive: {
    refused: [0, -1, 0.0001, 1_000_001].map((times) => ({ ...MULTIPLY, times })),
    taken: [0.001, 1.5, 1_000_000].map((times) => ({ ...MULTIPLY, times })),
  },
  rules_multiply_looks_at_callers_alone: {
    refused: [
      ...['methods', 'hosts', 'by', 'per'].map((field) => ({
        ...MULTIPLY,
        [field]: { methods: '{GET}', hosts: '{a.example}', by: '{ip}', per: '{method}' }[field],
      })),
      { ...MULTIPLY, routes: '{old}' },
      { ...MULTIPLY, replaces: true },
    ],
    taken: [{ ...MULTIPLY, subjects: '{"10.0.0.1"}', tiers: '{pro}', percent: 50 }],
  },
  rules_has_a_window: {
    refused: [{ window_seconds: null }, { window: 'day' }],
    taken: [{ window_seconds: null, action: 'allow' }, SEVERAL, DAY],
  },
  rules_window_is_known: {
    refused: ['', 'Day', 'year'].map((window) => ({ ...DAY, window })),
    taken: ['day', 'week', 'month'].map((window) => ({ ...DAY, window })),
  },
  rules_calendar_has_its_algorithm: {
    refused: ['gcra', 'sliding-window-counter', 'token-bucket'].map((algorithm) => ({ ...DAY, algorithm })),
    taken: [DAY, { ...DAY, algorithm: null, action: 'allow' }],
  },
  rules_time_zone_is_of_a_calendar: {
    refused: [
      { time_zone: 'UTC' },
      ...['', '+01:00', 'UTC+3 ', '/Berlin'].map((time_zone) => ({ ...DAY, time_zone })),
    ],
    taken: ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires', 'Etc/GMT+3', null].map((time_zone) => ({
      ...DAY,
      time_zone,
    })),
  },
  rules_anchor_day_is_of_a_month: {
    refused: [
      { anchor_day: 1 },
      { ...DAY, anchor_day: 1 },
      { ...MONTH, anchor_day: 0 },
      { ...MONTH, anchor_day: 32 },
    ],
    taken: [MONTH, { ...MONTH, anchor_day: 1 }, { ...MONTH, anchor_day: 31 }],
  },
  rules_limits_stand_alone: {
    refused: [{ limit: 1 }, { limit_name: 'x' }, { window_seconds: 1 }, { window: 'day' }].map((row) => ({
      ...SEVERAL,
      ...row,
    })),
    taken: [SEVERAL],
  },
  rules_limits_are_limits: each(
    'limits',
    [
      ...['{}', '5', 'null', '"x"', '[5]', '[[]]', '[{}]', '[{"windowSeconds": 1}]', '[{"limit": 1}]'],
      ...['0', '1.5', '"1"', 'null', '31622401'].map((of) => `[{"limit": 1, "windowSeconds": ${of}}]`),
      ...['0', '1.5', '"1"', 'null', '{}'].map((of) => `[{"windowSeconds": 1, "limit": ${of}}]`),
      '[{"windowSeconds": 1, "limit": 1, "algorithm": "leaky"}]',
      '[{"windowSeconds": 1, "limit": 1, "burst": 0}]',
      '[{"windowSeconds": 1, "limit": 1, "buckets": 101}]',
      '[{"windowSeconds": 1, "limitName": 5}]',
      '[{"windowSeconds": 1, "limit": 2, "limitClaim": "quota"}]',
      '[{"windowSeconds": 1, "limit": 2, "limitMax": 3}]',
      '[{"windowSeconds": 1, "limit": 2, "limitClaim": "quota", "limitMax": 1}]',
      '[{"windowSeconds": 1, "limitName": "x", "limitClaim": "quota", "limitMax": 1}]',
      ...[
        '"windowSeconds": 1, "window": "day"',
        '"window": "year"',
        '"window": null',
        '"window": "day", "anchorDay": 1',
      ].map((of) => `[{"limit": 1, ${of}}]`),
      ...['0', '32', '1.5', '"1"'].map((of) => `[{"limit": 1, "window": "month", "anchorDay": ${of}}]`),
      '[{"limit": 1, "windowSeconds": 1, "timeZone": "UTC"}]',
      '[{"limit": 1, "window": "day", "timeZone": 5}]',
      `[${Array.from({ length: 6 }, (_, i) => `{"limit": 1, "windowSeconds": ${i + 1}}`)}]`,
    ],
    [
      '[{"limit": 1, "windowSeconds": 1, "algorithm": "gcra", "burst": 5}, {"limitName": "x", "windowSeconds": 60}]',
      '[{"limit": 1, "windowSeconds": 1, "algorithm": "sliding-window-buckets", "buckets": 100}]',
      '[{"limit": 1, "window": "day"}, {"limit": 9, "window": "month", "timeZone": "Asia/Tokyo", "anchorDay": 31}]',
    ],
    { limit: null, window_seconds: null },
  ),
  rules_several_limits_have_no_leases: {
    refused: [
      { ...SEVERAL, algorithm: 'concurrency' },
      { ...SEVERAL, limits: '[{"limit": 1, "windowSeconds": 60, "algorithm": "concurrency"}]' },
    ],
    taken: [SEVERAL],
  },
  rules_costs_are_costs: each(
    'costs',
    [
      ...['{}', 'null', '[5]', '[{}]', '[{"cost": 1}]', '[{"resource": "/x"}]'],
      ...['0', '1.5', '"1"', '1000000001'].map((of) => `[{"resource": "/x", "cost": ${of}}]`),
      ...['5', '"x"', 'null'].map((of) => `[{"resource": ${of}, "cost": 1}]`),
      '[{"resource": "/x", "cost": 1, "methods": "GET"}]',
      `[${Array.from({ length: 101 }, () => '{"resource": "/x", "cost": 1}')}]`,
    ],
    ['[]', '[{"resource": "/x", "cost": 1000000000, "methods": ["GET"]}, {"resource": "/*", "cost": 1}]'],
  ),
  rules_throttle_has_one_limit_and_cost: {
    refused: [
      { ...THROTTLE, ...SEVERAL, algorithm: 'leaky-bucket' },
      { ...THROTTLE, costs: '[{"resource": "/x", "cost": 1}]' },
    ],
    taken: [THROTTLE, { ...SEVERAL, costs: '[{"resource": "/x", "cost": 1}]' }],
  },
  rules_resource_is_a_path: each(
    'resource',
    ['', 'x', ' /x', `/${'x'.repeat(1024)}`],
    ['/', `/${'x'.repeat(1023)}`],
  ),
  rules_has_a_resource: {
    refused: [{ resource: null }, { resources: ['/x'] }],
    taken: [{ resource: null, resources: ['/x', '/y/*'] }],
  },
  rules_resources_are_paths: each(
    'resources',
    [[null], [''], ['x'], ['/x', 'y'], Array.from({ length: 21 }, (_, i) => `/${i}`)],
    [['/'], ['/a b', '/c']],
    { resource: null },
  ),
  rules_methods_are_upper_case: each(
    'methods',
    [['get'], ['GET', ''], [null], ['GET,POST', 'A B'], ['X'.repeat(21)], ['GÉT']],
    [[], ['GET'], ['GET', 'X'.repeat(20)]],
  ),
  rules_scope_is_known: each(
    'scope',
    ['', 'everybody', 'IP', 'apikey'],
    ['global', 'tenant', 'user', 'apiKey', 'ip'],
  ),
  rules_tiers_has_no_null: each('tiers', [[null], ['pro', null]], [[], ['no such tier']]),
  rules_per_is_known: each('per', [['path'], [null]], [[], ['route'], ['method', 'route']]),
  rules_by_are_parts: each(
    'by',
    [['host'], ['header:'], ['header:a b'], ['user', null], ['user', 'ip', 'colo', 'asn']],
    [[], ['user', 'header:X-Model', 'claim:org'], ['param:id']],
  ),
  rules_by_has_a_bound: each('by', [['header:x'], ['country', 'param:id']], [['country']], {
    scope: 'global',
  }),
  rules_bound_times_is_positive: each('bound_times', [0, 1_000_001], [1, 1_000_000]),
  rules_throttle_has_no_parts: each('by', [['user']], [[]], THROTTLE),
  rules_hosts_are_hosts: each(
    'hosts',
    [['*'], ['A.example'], ['a b'], [null], ['https://a']],
    [[], ['a.example', '*.example.com']],
  ),
  rules_routes_has_no_null: each('routes', [[null]], [[], ['route-1']]),
  rules_subjects_has_no_null: each('subjects', [[null], ['ann', null]], [[], ['ann']]),
  rules_global_has_no_subjects: each('subjects', [['ann']], [[]], { scope: 'global' }),
  rules_ip_has_no_patterns: {
    refused: [['*'], ['10.*', '192.0.2.1'], ['192.0.2.1', '10.*']].map((subjects) => ({ subjects })),
    taken: [{ subjects: ['192.0.2.1'] }, { subjects: ['acme-*', '*'], scope: 'user' }],
  },
  rules_tenants_has_no_null: each('tenants', [[null], ['acme', null]], [[], ['no such tenant', 'acme-*']]),
  rules_all_counts_nothing: {
    refused: ['reject', 'log'].map((action) => ({ scope: 'all', action })),
    taken: [
      { scope: 'all', action: 'allow' },
      { scope: 'all', ...MULTIPLY },
    ],
  },
  rules_all_has_no_subjects: {
    refused: [{ subjects: ['ann'] }, { percent: 99 }].map((one) => ({
      ...one,
      scope: 'all',
      action: 'allow',
    })),
    taken: [{ scope: 'all', action: 'allow', tenants: ['acme'] }],
  },
  rules_tenants_stand_alone: {
    refused: [{ scope: 'tenant', subjects: ['acme'], tenants: ['acme'] }],
    taken: [
      { scope: 'user', subjects: ['ann'], tenants: ['acme'] },
      { scope: 'tenant', tenants: ['acme'] },
    ],
  },
  rules_multiply_has_counters_of_tenants: {
    refused: ['ip', 'global'].map((scope) => ({ ...MULTIPLY, scope, tenants: ['acme'] })),
    taken: ['all', 'tenant', 'user', 'apiKey'].map((scope) => ({ ...MULTIPLY, scope, tenants: ['acme'] })),
  },
  rules_percent_is_a_part: each('percent', [-1, 101], [0, 100]),
  rules_global_has_no_percent: each('percent', [99], [100], { scope: 'global' }),
  rules_valid_on_dates: {
    refused: [{ valid_from: 'infinity' }, { valid_until: '-infinity' }],
    taken: [{ valid_from: '2030-01-01Z' }, { valid_until: '1970-01-01Z' }],
  },
  rules_ends_after_it_begins: each(
    'valid_until',
    ['2030-01-01Z', '2029-12-31Z'],
    ['2030-01-01T00:00:01Z', null],
    { valid_from: '2030-01-01Z' },
  ),
  rules_algorithm_is_known: each(
    'algorithm',
    ['', 'leaky', 'GCRA'],
    [
      'fixed-window',
      'sliding-window-log',
      'sliding-window-counter',
      'sliding-window-buckets',
      'token-bucket',
    ].concat(['leaky-bucket', 'gcra', 'concurrency']),
  ),
  rules_has_a_limit: each('limit_name', [null], ['calls'], { limit: null }),
  rules_limit_is_positive: each('limit', [0, -1, TRILLION + 1], [1, TRILLION]),
  rules_limit_claim_is_short: each('limit_claim', ['', long(129)], ['x', long(128), 'https://x.example/q'], {
    limit: 1,
    limit_max: 1,
  }),
  rules_limit_claim_has_bounds: {
    refused: [
      { limit_claim: 'quota' },
      { limit_max: 100 },
      { limit_claim: 'quota', limit: 10, limit_max: 9 },
      { limit_claim: 'quota', limit: 10, limit_max: 10, algorithm: 'gcra', burst: 5 },
      { limit_claim: 'quota', limit: null, limit_name: 'calls', limit_max: 9 },
    ],
    taken: [{ limit_claim: 'quota', limit: 10, limit_name: 'calls', limit_max: 10 }],
  },
  rules_limit_max_is_positive: {
    refused: [{ limit_claim: 'quota', limit: TRILLION, limit_max: TRILLION + 1 }],
    taken: [{ limit_claim: 'quota', limit: TRILLION, limit_max: TRILLION }],
  },
  rules_limit_name_is_short: each('limit_name', ['', long(65)], ['x', long(64), null]),
  rules_window_is_positive: each('window_seconds', [0, -1, YEAR + 1], [1, YEAR]),
  rules_burst_has_its_algorithm: {
    refused: [
      ...['fixed-window', 'sliding-window-log', 'concurrency'].map((algorithm) => ({ algorithm, burst: 5 })),
      ...[0, TRILLION + 1].map((burst) => ({ algorithm: 'gcra', burst })),
    ],
    taken: [
      ...['gcra', 'token-bucket', 'leaky-bucket'].map((algorithm) => ({ algorithm, burst: 1 })),
      { algorithm: 'gcra', burst: TRILLION },
    ],
  },
  rules_buckets_have_their_algorithm: {
    refused: [
      { algorithm: 'sliding-window-log', buckets: 5 },
      ...[0, 101].map((buckets) => ({ algorithm: 'sliding-window-buckets', buckets })),
    ],
    taken: [1, 100, null].map((buckets) => ({ algorithm: 'sliding-window-buckets', buckets })),
  },
  rules_cost_is_positive: each('cost', [0, -1, 1_000_000_001], [1, 1_000_000_000]),
  rules_action_is_known: each('action', ['', 'block'], ['reject', 'throttle', 'log'], {
    algorithm: 'leaky-bucket',
  }),
  rules_max_delay_is_of_throttle: {
    refused: [
      { action: 'reject', max_delay_ms: 5 },
      ...[0, 30_001].map((max_delay_ms) => ({ ...THROTTLE, max_delay_ms })),
    ],
    taken: [1, 30_000, null].map((max_delay_ms) => ({ ...THROTTLE, max_delay_ms })),
  },
  rules_throttle_has_its_algorithm: {
    refused: ['fixed-window', 'gcra', 'concurrency'].map((algorithm) => ({ ...THROTTLE, algorithm })),
    taken: [THROTTLE],
  },
  rules_leases_have_no_cost_from_origin: {
    refused: ['cost_from_origin', 'count_denied'].map((column) => ({ ...SEAT, [column]: true })),
    taken: [SEAT, { cost_from_origin: true, count_denied: true }],
  },
  rules_leases_last: {
    refused: [1, 29].map((window_seconds) => ({ ...SEAT, window_seconds })),
    taken: [SEAT, { ...SEAT, window_seconds: YEAR }, { window_seconds: 29 }],
  },
  rules_block_is_positive: each('block_seconds', [0, -1, YEAR + 1], [1, YEAR, null]),
  rules_status_is_an_error: each('status', [399, 600, 200], [400, 599]),
  rules_message_is_short: each('message', [long(1025)], ['', long(1024), null]),
  rules_on_unavailable_is_known: each('on_unavailable', ['', 'Open'], ['open', 'closed', 'local']),
  rules_alert_at_are_percents: each(
    'alert_at',
    ['{0}', '{101}', '{80,-1}', '{null}', '{1,2,3,4,5,6}'],
    ['{}', '{1,100}', '{80,100}'],
  ),
  rules_shares_is_an_object: each('shares', ['[]', '5', 'null', '"eu"'], ['{"eu": 1}', null]),
  rules_shares_are_parts: each('shares', NO_PARTS, PARTS),
  rules_central_has_no_shares: {
    refused: [{ central: true, shares: '{"eu": 1}' }],
    taken: [{ central: true }, { central: false, shares: '{"eu": 1}' }],
  },
};
