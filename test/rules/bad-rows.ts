// For every constraint of the database: rows that break this constraint and no other, and rows that just keep it.
import { RULE_CASES } from './bad-rules.ts';
import { type Case, each, long, pkey, TRILLION } from './row-cases.ts';

const placed = (fields: string, replacedAtMs: string) =>
  `[{"placed": ${fields}, "replacedAtMs": ${replacedAtMs}}]`;

export const CASES: Readonly<Record<string, Case>> = {
  ...RULE_CASES,
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
  tenants_limits_is_an_object: each('limits', ['[]', '"calls"', 'null', '5'], ['{}']),
  tenants_limits_are_whole_numbers_or_null: each(
    'limits',
    ['0', '-1', '1.5', '"5"', 'true', '[0]', String(TRILLION + 1)].map((of) => `{"a": 1, "b": ${of}}`),
    ['1', 'null', String(TRILLION)].map((of) => `{"a": 1, "b": ${of}}`),
  ),
  tenants_multiples_name_a_tier: each(
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
  routes_resource_is_a_prefix: {
    ...each(
      'resource',
      ['', '/', '/x', '*', 'x/*', '/X/*', '/a//b/*', '/a?b/*', '/a*/*', '/{x}/*', `/${'x'.repeat(1024)}/*`],
      ['/*', '/x/*', '/a/b.c/*', `/${'x'.repeat(1023)}/*`],
    ),
    withoutTriggers: true,
  },
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
  // A migration has created the only row.
  settings_pkey: { refused: [{}], taken: [] },
  settings_are_one: { refused: [{ id: 'other' }], taken: [] },
  settings_file_extensions_is_known: { refused: [{ file_extensions: 'cut' }], taken: [] },
  settings_enforcement_is_known: { refused: [{ enforcement: 'off' }], taken: [] },
  history_pkey: pkey('history'),
  history_says_something: { refused: [{ after: null }], taken: [{ after: null, before: '{}' }] },
  denied_requests_pkey: { refused: [{}], standing: {} },
  denials_once: { refused: [{}], taken: [{ api_key_id: 'k' }], standing: {} },
  events_at_scope_rule_id_subject_pk: { refused: [{}], standing: {} },
  usage_at_tenant_id_user_id_api_key_id_rule_id_pk: { refused: [{}], standing: {} },
  record_batches_pkey: { refused: [{}], standing: {} },
  metric_sums_pkey: { refused: [{}], standing: {} },
  isolate_reports_pkey: { refused: [{}], standing: {} },
  ended_sessions_pkey: { refused: [{}], standing: {} },
  alerts_once: { refused: [{}], standing: {} },
  denials_count_is_positive: each('count', [0, -1], [1]),
  events_count_is_positive: each('count', [0, -1], [1]),
};
