// Rows for tests of the constraints: the smallest valid row of each table, rows that exist, and how a case is written.

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
  denied_requests: {
    ...{ request_id: 'x', at: '2030-01-01Z', status: 429, code: 'c', method: 'GET', route: 'r' },
    ...{ region: 'us', tenant_id: '', user_id: '', api_key_id: '', rules: '[]' },
  },
  denials: {
    ...{ at: '2030-01-01Z', rule_id: 'r', rule_name: 'r', scope: 'ip', subject: 's' },
    ...{ tenant_id: '', user_id: '', api_key_id: '', count: 1 },
  },
  events: { at: '2030-01-01Z', rule_id: 'r', rule_name: 'r', scope: 'ip', subject: 's', count: 1 },
  usage: {
    ...{ at: '2030-01-01Z', tenant_id: 't', user_id: 'u', api_key_id: 'k', rule_id: 'r' },
    ...{ requests: 1, cost: 1 },
  },
  settings: { id: 'all' },
  record_batches: { id: 'b' },
  metric_sums: { series: 's', amount: 1 },
  isolate_reports: { isolate_id: 'i', at: '2030-01-01Z', report: '{}' },
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
  /** Set if the type of a value refuses the value before the constraint does. */
  readonly sqlState?: string;
  /** A row that the test inserts first. */
  readonly standing?: Row;
  /** Set if a trigger would correct the row before the constraint refuses it. */
  readonly withoutTriggers?: boolean;
}

export const TRILLION = 1_000_000_000_000;
export const long = (length: number) => 'é'.repeat(length);
export const each = (
  column: string,
  refused: readonly unknown[],
  taken: readonly unknown[],
  more: Row = {},
): Case => ({
  refused: refused.map((value) => ({ ...more, [column]: value })),
  taken: taken.map((value) => ({ ...more, [column]: value })),
});
export const pkey = (table: string, column = 'id'): Case => ({
  refused: [{ [column]: STANDING[table]?.[column] }],
});
