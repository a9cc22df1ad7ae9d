// For every constraint of the database: rows that break this constraint and no other, and rows that just keep it.

export type Row = Readonly<Record<string, unknown>>;

/** The smallest valid row of each table. */
export const LEAST: Readonly<Record<string, Row>> = {
  tiers: { name: 'pro' },
  tenants: { id: 'acme' },
  users: { id: 'ann' },
  api_keys: { hash: 'a'.repeat(64), prefix: 'weir_a' },
  rules: { resource: '/x', scope: 'ip', algorithm: 'fixed-window', limit: 1, window_seconds: 30 },
  placements: { id: '*', placed: '{"eu": 1}' },
  last_publication: {
    sequence: 1,
    announcement: 'x',
    fingerprint: 'x',
    callers_since: '2030-01-01Z',
    bytes: 1,
  },
  list_entries: { list: 'deny', kind: 'user', value: 'eve' },
  routes: { origin: 'https://api.example.com' },
  history: { change_id: 1, actor: 'ann', entity: 'rules', entity_id: 'x', after: '{}' },
  events: { at: '2030-01-01Z', rule_id: 'r', rule_name: 'r', scope: 'ip', subject: 's', count: 1 },
  usage: {
    ...{ at: '2030-01-01Z', tenant_id: 't', user_id: 'u', api_key_id: 'k', rule_id: 'r' },
    ...{ requests: 1, cost: 1 },
  },
  settings: { id: 'all' },
  record_batches: { id: 'b' },
  ended_sessions: { id: 's', expires_at: '2030-01-01Z' },
  alerts: {
    ...{ rule_id: 'r', window_seconds: 60, window_start: '2030-01-01Z', scope: 'ip', subject: 's' },
    ...{ percent: 80, rule_name: 'r', limit: 10, used: 8, at: '2030-01-01Z' },
  },
};

/** Rows that exist already. */
export const STANDING: Readonly<Record<string, Row>> = {
  tiers: { name: 'free', is_default: true },
  tenants: { id: 'globex' },
  users: { id: 'bob' },
  api_keys: { id: '00000000-0000-4000-8000-000000000001', hash: 'b'.repeat(64) },
  rules: { id: '00000000-0000-4000-8000-000000000001', name: 'standing', ordinal: 1_000_000 },
  list_entries: { id: '00000000-0000-4000-8000-000000000001', value: 'mallory' },
  routes: { id: '00000000-0000-4000-8000-000000000001', name: 'standing', host: 'standing.example.com' },
  history: { id: 1_000_000 },
};

export interface Case {
  /** Fields that differ from `LEAST`. */
  readonly refused: readonly Row[];
  readonly taken?: readonly Row[];
  /** If the type of a value refuses it before the constraint does. */
  readonly sqlState?: string;
  /** Inserted just before. */
  readonly standing?: Row;
  /** If a trigger makes sure that there is nothing to refuse. */
  readonly withoutTriggers?: boolean;
}

const YEAR = 366 * 86_400;
const DAY = { window_seconds: null, window: 'day' };
const MONTH = { ...DAY, window: 'month' };
const MULTIPLY = { action: 'multiply', times: 2 };
const TRILLION = 1_000_000_000_000;
const SEAT = { algorithm: 'concurrency', window_seconds: 30 };
const THROTTLE = { action: 'throttle', algorithm: 'leaky-bucket' };
const SEVERAL = { limit: null, window_seconds: null, limits: '[{"limit": 1, "windowSeconds": 1}]' };
const long = (length: number) => 'é'.repeat(length);
const each = (
  column: string,
  refused: readonly unknown[],
  taken: readonly unknown[],
  more: Row = {},
): Case => ({
  refused: refused.map((value) => ({ ...more, [column]: value })),
  taken: taken.map((value) => ({ ...more, [column]: value })),
});
const NO_PARTS = ['{}', '{"eu": 0}', '{"eu": -1, "us": 1}', '{"eu": "1"}', '{"eu": 1, "us": null}'];
const PARTS = ['{"eu": 0.5}', '{"eu": 0, "us": 3}'];
const placed = (fields: string, replacedAtMs: string) =>
  `[{"placed": ${fields}, "replacedAtMs": ${replacedAtMs}}]`;
const pkey = (table: string, column = 'id'): Case => ({ refused: [{ [column]: STANDING[table]?.[column] }] });

export const CASES: Readonly<Record<string, Case>> = {
  tiers_pkey: { refused: [{ name: 'free' }] },
  tiers_one_default: { ...each('is_default', [true], [false]), withoutTriggers: true },
  tiers_name_is_plain: each(
    'name',
    ['', 'Pro', '-pro', 'a b', 'x'.repeat(64), 'pro\n'],
    ['7', 'a-', 'x'.repeat(63)],
  ),
  tiers_display_name_is_short: each('display_name', [long(129)], [long(128)]),
  tiers_price_is_not_negative: each('price_cents', [-1], [0]),
  tiers_limits_is_an_object: each('limits', ['[]', '"calls"', 'null', '5'], ['{}']),
  tiers_limits_are_whole_numbers_or_null: each(
    'limits',
    ['0', '-1', '1.5', '"5"', 'true', '[0]', String(TRILLION + 1)].map((of) => `{"a": 1, "b": ${of}}`),
    ['1', 'null', String(TRILLION)].map((of) => `{"a": 1, "b": ${of}}`),
  ),
  tiers_multiples_name_a_tier: each(
    'limits',
    ['{}', '{"times": 2}', '{"of": "free"}', '{"times": 0, "of": "free"}', '{"times": 1.5, "of": "free"}']
      .concat('{"times": "2", "of": "free"}', '{"times": 2, "of": 5}', '{"times": 1000001, "of": "free"}')
      .map((of) => `{"a": 1, "b": ${of}}`),
    ['{"a": {"times": 10, "of": "no such tier"}}'],
  ),
  tenants_pkey: pkey('tenants'),
  tenants_id_is_short: each('id', ['', long(257)], ['x', long(256)]),
  tenants_anchor_day_is_a_day: each('anchor_day', [0, 32], [1, 31, null]),
  tenants_name_is_short: each('name', [long(129)], ['', long(128)]),
  tenants_tier_tiers_name_fk: each('tier', ['gold'], ['free', null]),
  users_pkey: pkey('users'),
  users_id_is_short: each('id', ['', long(257)], ['x', long(256)]),
  users_tier_tiers_name_fk: each('tier', ['gold'], ['free', null]),
  users_tenant_id_tenants_id_fk: each('tenant_id', ['nobody'], ['globex', null]),
  api_keys_pkey: pkey('api_keys'),
  api_keys_hash_unique: { refused: [{ hash: 'b'.repeat(64) }] },
  api_keys_name_is_short: each('name', [long(129)], ['', long(128)]),
  api_keys_hash_is_a_sha256: each(
    'hash',
    ['', 'a'.repeat(63), 'a'.repeat(65), 'A'.repeat(64), 'g'.repeat(64)],
    ['0123456789abcdef'.repeat(4)],
  ),
  api_keys_prefix_is_short: each('prefix', ['', 'x'.repeat(17)], ['x', 'x'.repeat(16)]),
  api_keys_user_id_is_short: each('user_id', ['', long(257)], ['in no table', long(256), null]),
  api_keys_expires_on_a_date: each('expires_at', ['infinity', '-infinity'], ['1970-01-01Z', null]),
  api_keys_tenant_id_tenants_id_fk: each('tenant_id', ['nobody'], ['globex', null]),
  api_keys_tier_tiers_name_fk: each('tier', ['gold'], ['free', null]),
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
  last_publication_pkey: { refused: [{}], standing: {} },
  last_publication_is_one: each('id', [0, 2], [1]),
  placements_pkey: { refused: [{}], standing: {} },
  placements_placed_is_an_object: each('placed', ['[]', '5', 'null', '"eu"'], ['{}', '{"eu": 1}']),
  placements_before_is_a_list_of_placements: each(
    'before',
    [
      ...['{}', '"x"', 'null', '[5]', '[{}]', '[{"placed": {}}]', '[{"replacedAtMs": 5}]'],
      ...['null', '[]', '"x"'].map((shares) => placed(shares, '5')),
      ...['"5"', 'true', '{}'].map((atMs) => placed('{}', atMs)),
      `[${placed('{}', '5').slice(1, -1)}, {}]`,
    ],
    ['[]', placed('{}', '5'), placed('{"eu": 1}', 'null')],
  ),
  list_entries_pkey: pkey('list_entries'),
  list_entries_once: { refused: [{ value: 'mallory' }], taken: [{ value: 'mallory', list: 'allow' }] },
  list_entries_list_is_known: each('list', ['', 'block'], ['allow', 'deny']),
  list_entries_kind_is_known: each('kind', ['', 'cidr'], ['apiKey', 'user', 'tenant']),
  list_entries_value_is_short: each('value', ['', long(257)], ['x', long(256)]),
  list_entries_ip_is_an_address: {
    ...each(
      'value',
      ['localhost', '256.0.0.1', '10.0.0.0/33', '::g', '::/129'],
      ['10.0.0.1', '10.0.0.0/8', '::1', '2001:db8::/32'],
      { kind: 'ip' },
    ),
    sqlState: '22P02',
  },
  list_entries_expires_on_a_date: each('expires_at', ['infinity', '-infinity'], ['1970-01-01Z', null]),
  list_entries_reason_is_short: each('reason', [long(1025)], ['', long(1024)]),
  routes_pkey: pkey('routes'),
  routes_name_unique: pkey('routes', 'name'),
  routes_name_is_short: each('name', ['', long(129)], ['x', long(128)]),
  routes_name_has_no_control_characters: each('name', ['a\nb', '\u0001', 'a\u2028b'], ['a b']),
  routes_once: {
    refused: [{ host: 'standing.example.com' }],
    taken: [
      { host: 'standing.example.com', enabled: false },
      { host: 'standing.example.com', prefix: '/x' },
    ],
  },
  routes_host_is_a_host: each(
    'host',
    [
      '',
      'API.example.com',
      'a..b',
      'a.example.com.',
      '*.*.com',
      'x*',
      'a.com:80',
      'a/b',
      `${'x'.repeat(63)}.`.repeat(4),
    ],
    ['*', 'localhost', 'a.example.com', '*.example.com', 'xn--bcher-kva.example'],
  ),
  routes_prefix_is_a_path: each(
    'prefix',
    ['', 'x', '/x/', '//', '/X', '/a//b', '/a?b', '/a*', '/{x}', '/a b', `/${'x'.repeat(1024)}`],
    ['/', '/x', '/a/b.c', `/${'x'.repeat(1023)}`],
  ),
  routes_origin_is_known: each(
    'origin',
    [
      '',
      'ftp://x',
      'example.com',
      'service:',
      'service:a-b',
      'pass ',
      'https://',
      'https://u:p@x',
      'https://x?y',
    ],
    ['pass', 'service:DEMO', 'https://x.example.com/base', 'http://127.0.0.1:8788'],
  ),
  routes_strip_prefix_is_of_prefix: each(
    'strip_prefix',
    ['', '/', '/b', '/a/b/c', '/a/', 'a'],
    ['/a', '/a/b', null],
    {
      prefix: '/a/b',
    },
  ),
  routes_timeout_is_positive: each('timeout_ms', [0, -1, 900_001], [1, 900_000, null]),
  routes_host_header_is_a_host: each(
    'host_header',
    ['', 'a b', 'a/b', 'a:80', 'a\n'],
    ['a.example.com', null],
  ),
  routes_headers_are_texts: each('headers', ['[]', '"x"', '{"a": 1}', '{"a": null}'], ['{}', '{"a": "b"}']),
  // A migration has made the one row.
  settings_pkey: { refused: [{}], taken: [] },
  settings_are_one: { refused: [{ id: 'other' }], taken: [] },
  settings_file_extensions_is_known: { refused: [{ file_extensions: 'cut' }], taken: [] },
  settings_enforcement_is_known: { refused: [{ enforcement: 'off' }], taken: [] },
  history_pkey: pkey('history'),
  history_says_something: { refused: [{ after: null }], taken: [{ after: null, before: '{}' }] },
  events_at_scope_rule_id_subject_pk: { refused: [{}], standing: {} },
  usage_at_tenant_id_user_id_api_key_id_rule_id_pk: { refused: [{}], standing: {} },
  record_batches_pkey: { refused: [{}], standing: {} },
  ended_sessions_pkey: { refused: [{}], standing: {} },
  alerts_once: { refused: [{}], standing: {} },
  events_count_is_positive: each('count', [0, -1], [1]),
};
