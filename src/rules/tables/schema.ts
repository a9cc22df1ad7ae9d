// The tables, as Drizzle sees them. The constraints stand in the database too: a row written by hand or by
// a migration is refused there when SQL can tell that it is wrong. `revision`, `updatedAt` and the history
// are kept by triggers (drizzle/0003_history.sql, 0009_change-numbers.sql), and so is how rules were placed before
// they hold for every way of changing a row.
import { sql } from 'drizzle-orm';
import {
  type AnyPgColumn,
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  pgSequence,
  pgTable,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { ALGORITHM_IDS, idsWith } from '../../core/counting/algorithms/registry.ts';
import {
  ACTIONS,
  LARGEST_LIMIT,
  LISTED_KINDS,
  LISTS,
  LONGEST_WINDOW_SECONDS,
  ON_UNAVAILABLE,
  RULE_DEFAULTS,
  SCOPES,
  SHORTEST_LEASE_SECONDS,
  type SharesByRegion,
  type TierLimits,
} from '../../core/matching/rule.ts';

const oneOf = (column: AnyPgColumn, values: readonly string[]) =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;
const within = (column: AnyPgColumn, from: number, to: number) =>
  sql`${column} between ${sql.raw(String(from))} and ${sql.raw(String(to))}`;
const matches = (column: AnyPgColumn, pattern: string) => sql`${column} ~ ${sql.raw(`'${pattern}'`)}`;

const matchesPath = (column: AnyPgColumn, path: string) =>
  sql`jsonb_path_exists(${column}, ${sql.raw(`'${path}'`)})`;
/** Weights by region: none below 0, and not all of them 0. */
const areParts = (column: AnyPgColumn) =>
  sql`jsonb_typeof(${column}) <> 'object' or not ${matchesPath(column, '$.* ? (@.type() != "number" || @ < 0)')} and ${matchesPath(column, '$.* ? (@ > 0)')}`;
/** Entries of what was before; each says more than when it was replaced. */
const areReplaced = (column: AnyPgColumn) =>
  sql`jsonb_typeof(${column}) = 'array' and not ${matchesPath(column, '$[*] ? (!((@.replacedAtMs.type() == "number" || @.replacedAtMs.type() == "null") && @.placed.type() == "object"))')}`;

const moment = () => timestamp({ withTimezone: true });
const emptyList = sql`'{}'`;

export const revisions = pgSequence('revisions');
/** Each publication takes the next number, so that an older one never replaces a newer one. */
export const publications = pgSequence('publications');
/** Each transaction that changes something takes the next number. A transaction id starts over after a restore. */
export const changes = pgSequence('changes');

/** What every table that people edit has. */
const kept = {
  /** Another one after every change, never used twice: the ETag. */
  revision: bigint({ mode: 'number' }).notNull().default(sql`nextval('revisions')`),
  createdAt: moment().notNull().defaultNow(),
  updatedAt: moment().notNull().defaultNow(),
};

export const tiers = pgTable(
  'tiers',
  {
    name: text().primaryKey(),
    displayName: text().notNull().default(''),
    /** A month, in cents. */
    priceCents: integer().notNull().default(0),
    limits: jsonb().$type<TierLimits>().notNull().default({}),
    isDefault: boolean().notNull().default(false),
    ...kept,
  },
  (table) => [
    check('tiers_name_is_plain', matches(table.name, '^[a-z0-9][a-z0-9-]{0,62}$')),
    check('tiers_display_name_is_short', sql`length(${table.displayName}) <= 128`),
    check('tiers_price_is_not_negative', sql`${table.priceCents} >= 0`),
    check('tiers_limits_is_an_object', sql`jsonb_typeof(${table.limits}) = 'object'`),
    check(
      'tiers_limits_are_whole_numbers_or_null',
      sql`not jsonb_path_exists(${table.limits}, '$.* ? (@ != null && (@.type() != "number" || @ < 1 || @ > 1000000000000 || @ != @.floor()))')`,
    ),
    uniqueIndex('tiers_one_default').on(table.isDefault).where(sql`${table.isDefault}`),
  ],
);

export const tenants = pgTable(
  'tenants',
  {
    id: text().primaryKey(),
    name: text().notNull().default(''),
    tier: text().references(() => tiers.name, { onUpdate: 'cascade' }),
    ...kept,
  },
  (table) => [
    check('tenants_id_is_short', sql`length(${table.id}) between 1 and 256`),
    check('tenants_name_is_short', sql`length(${table.name}) <= 128`),
    index('tenants_tier').on(table.tier),
  ],
);

/** Users whose tier or tenant is not the default one. */
export const users = pgTable(
  'users',
  {
    id: text().primaryKey(),
    tier: text().references(() => tiers.name, { onUpdate: 'cascade' }),
    tenantId: text().references(() => tenants.id),
    ...kept,
  },
  (table) => [
    check('users_id_is_short', sql`length(${table.id}) between 1 and 256`),
    index('users_tier').on(table.tier),
    index('users_tenant_id').on(table.tenantId),
  ],
);

/** Never the key itself: its hash, and so much of its beginning that a person recognizes it. */
export const apiKeys = pgTable(
  'api_keys',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().default(''),
    hash: text().notNull().unique(),
    prefix: text().notNull(),
    /** The user that owns it; need not be in `users`. */
    userId: text(),
    tenantId: text().references(() => tenants.id),
    tier: text().references(() => tiers.name, { onUpdate: 'cascade' }),
    expiresAt: moment(),
    disabled: boolean().notNull().default(false),
    ...kept,
  },
  (table) => [
    check('api_keys_name_is_short', sql`length(${table.name}) <= 128`),
    check('api_keys_hash_is_a_sha256', matches(table.hash, '^[0-9a-f]{64}$')),
    check('api_keys_prefix_is_short', sql`length(${table.prefix}) between 1 and 16`),
    check('api_keys_user_id_is_short', sql`length(${table.userId}) between 1 and 256`),
    check('api_keys_expires_on_a_date', sql`isfinite(${table.expiresAt})`),
    index('api_keys_user_id').on(table.userId),
    index('api_keys_tenant_id').on(table.tenantId),
    index('api_keys_tier').on(table.tier),
  ],
);

export const rules = pgTable(
  'rules',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().unique().default(sql`'rule-' || left(gen_random_uuid()::text, 8)`),
    resource: text().notNull(),
    methods: text().array().notNull().default(emptyList),
    scope: text({ enum: SCOPES }).notNull(),
    tiers: text().array().notNull().default(emptyList),
    subjects: text().array().notNull().default(emptyList),
    algorithm: text({ enum: ALGORITHM_IDS }).notNull(),
    limit: bigint({ mode: 'number' }),
    limitName: text(),
    windowSeconds: integer().notNull(),
    burst: bigint({ mode: 'number' }),
    buckets: integer(),
    cost: integer().notNull().default(RULE_DEFAULTS.cost),
    costFromOrigin: boolean().notNull().default(RULE_DEFAULTS.costFromOrigin),
    refundOnError: boolean().notNull().default(RULE_DEFAULTS.refundOnError),
    action: text({ enum: ACTIONS }).notNull().default(RULE_DEFAULTS.action),
    maxDelayMs: integer(),
    priority: integer().notNull().default(RULE_DEFAULTS.priority),
    enabled: boolean().notNull().default(true),
    countDenied: boolean().notNull().default(RULE_DEFAULTS.countDenied),
    blockSeconds: integer(),
    status: integer().notNull().default(RULE_DEFAULTS.status),
    message: text(),
    onUnavailable: text({ enum: ON_UNAVAILABLE }).notNull().default(RULE_DEFAULTS.onUnavailable),
    shares: jsonb().$type<SharesByRegion>(),
    spill: boolean().notNull().default(RULE_DEFAULTS.spill),
    central: boolean().notNull().default(RULE_DEFAULTS.central),
    /** Counters of rules with neighbouring numbers share a key: it never changes. */
    ordinal: integer().notNull().generatedByDefaultAsIdentity(),
    ...kept,
  },
  (table) => [
    check('rules_name_is_short', sql`length(${table.name}) between 1 and 128`),
    check(
      'rules_name_has_no_control_characters',
      sql`not ${matches(table.name, '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]')}`,
    ),
    check('rules_resource_is_a_path', sql`${table.resource} like '/%' and length(${table.resource}) <= 1024`),
    check(
      'rules_methods_are_upper_case',
      sql`array_to_string(${table.methods}, ',', '?') ~ '^([A-Z]{1,20}(,[A-Z]{1,20})*)?$'`,
    ),
    check('rules_scope_is_known', oneOf(table.scope, SCOPES)),
    check('rules_tiers_has_no_null', sql`array_position(${table.tiers}, null) is null`),
    check('rules_subjects_has_no_null', sql`array_position(${table.subjects}, null) is null`),
    check('rules_global_has_no_subjects', sql`${table.scope} <> 'global' or ${table.subjects} = '{}'`),
    check('rules_algorithm_is_known', oneOf(table.algorithm, ALGORITHM_IDS)),
    check('rules_has_a_limit', sql`${table.limit} is not null or ${table.limitName} is not null`),
    check('rules_limit_is_positive', within(table.limit, 1, LARGEST_LIMIT)),
    check('rules_limit_name_is_short', sql`length(${table.limitName}) between 1 and 64`),
    check('rules_window_is_positive', within(table.windowSeconds, 1, LONGEST_WINDOW_SECONDS)),
    check(
      'rules_burst_has_its_algorithm',
      sql`${table.burst} is null or ${table.burst} between 1 and 1000000000000 and ${oneOf(
        table.algorithm,
        idsWith(({ extra }) => extra === 'burst'),
      )}`,
    ),
    check(
      'rules_buckets_have_their_algorithm',
      sql`${table.buckets} is null or ${table.buckets} between 1 and 100 and ${table.algorithm} = 'sliding-window-buckets'`,
    ),
    check('rules_cost_is_positive', within(table.cost, 1, 1_000_000_000)),
    check('rules_action_is_known', oneOf(table.action, ACTIONS)),
    check(
      'rules_max_delay_is_of_throttle',
      sql`${table.maxDelayMs} is null or ${table.maxDelayMs} between 1 and 30000 and ${table.action} = 'throttle'`,
    ),
    check(
      'rules_throttle_has_its_algorithm',
      sql`${table.action} <> 'throttle' or ${table.algorithm} = 'leaky-bucket'`,
    ),
    check(
      'rules_leases_have_no_cost_from_origin',
      sql`${table.algorithm} <> 'concurrency' or not (${table.costFromOrigin} or ${table.countDenied})`,
    ),
    check(
      'rules_leases_last',
      sql`${table.algorithm} <> 'concurrency' or ${within(table.windowSeconds, SHORTEST_LEASE_SECONDS, LONGEST_WINDOW_SECONDS)}`,
    ),
    check('rules_block_is_positive', within(table.blockSeconds, 1, LONGEST_WINDOW_SECONDS)),
    check('rules_status_is_an_error', within(table.status, 400, 599)),
    check('rules_message_is_short', sql`length(${table.message}) <= 1024`),
    check('rules_on_unavailable_is_known', oneOf(table.onUnavailable, ON_UNAVAILABLE)),
    check('rules_shares_is_an_object', sql`jsonb_typeof(${table.shares}) = 'object'`),
    check('rules_shares_are_parts', areParts(table.shares)),
    check('rules_central_has_no_shares', sql`not ${table.central} or ${table.shares} is null`),
    // The order of the admin route's list. Filters read on in it: there are thousands of rules, not millions.
    uniqueIndex('rules_ordinal').on(table.ordinal),
  ],
);

/** How each rule was placed by the last publication, and how before; under `*`, how REGIONS splits all the others. */
export const placements = pgTable(
  'placements',
  {
    /** Of the rule. */
    id: text().primaryKey(),
    placed: jsonb().$type<Placed>().notNull(),
    /** Oldest first. */
    before: jsonb().$type<readonly PlacedThen[]>().notNull().default([]),
    updatedAt: moment().notNull().defaultNow(),
  },
  (table) => [
    check('placements_placed_is_an_object', sql`jsonb_typeof(${table.placed}) = 'object'`),
    check('placements_before_is_a_list_of_placements', areReplaced(table.before)),
  ],
);

/** The fields of a rule that decide where it is counted; under `*`, the shares by region. */
export type Placed = Readonly<Record<string, unknown>>;

export interface PlacedThen {
  readonly placed: Placed;
  readonly replacedAtMs: number | null;
}

/** What was published last, and how the tables looked then: one row, which the cron run compares with them. */
export const lastPublication = pgTable(
  'last_publication',
  {
    id: integer().primaryKey().default(1),
    sequence: bigint({ mode: 'number' }).notNull(),
    /** As it stands in every region and in KV. */
    announcement: text().notNull(),
    /** Of all rows that are published (src/rules/publishing/last-publication.ts). */
    fingerprint: text().notNull(),
    /** Changes of callers from then on are part of the fingerprint. */
    callersSince: moment().notNull(),
    /** Size of the rules, tiers and lists as they were published. */
    bytes: integer().notNull(),
  },
  (table) => [check('last_publication_is_one', sql`${table.id} = 1`)],
);

export const listEntries = pgTable(
  'list_entries',
  {
    id: uuid().primaryKey().defaultRandom(),
    list: text({ enum: LISTS }).notNull(),
    kind: text({ enum: LISTED_KINDS }).notNull(),
    value: text().notNull(),
    reason: text().notNull().default(''),
    expiresAt: moment(),
    ...kept,
  },
  (table) => [
    check('list_entries_list_is_known', oneOf(table.list, LISTS)),
    check('list_entries_kind_is_known', oneOf(table.kind, LISTED_KINDS)),
    check('list_entries_value_is_short', sql`length(${table.value}) between 1 and 256`),
    check('list_entries_ip_is_an_address', sql`${table.kind} <> 'ip' or ${table.value}::inet is not null`),
    check('list_entries_expires_on_a_date', sql`isfinite(${table.expiresAt})`),
    check('list_entries_reason_is_short', sql`length(${table.reason}) <= 1024`),
    uniqueIndex('list_entries_once').on(table.list, table.kind, table.value),
  ],
);

/** Every change of every row above, written by triggers. Rows of one transaction have one `changeId`. */
export const history = pgTable(
  'history',
  {
    id: bigint({ mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    changeId: bigint({ mode: 'number' }).notNull(),
    at: moment().notNull().defaultNow(),
    /** The name of the admin token, or the database role that wrote by hand or by a migration. */
    actor: text().notNull(),
    /** The table. */
    entity: text().notNull(),
    entityId: text().notNull(),
    /** Rows as they are in the table; null before a creation and after a deletion. */
    before: jsonb().$type<Record<string, unknown>>(),
    after: jsonb().$type<Record<string, unknown>>(),
  },
  (table) => [
    check('history_says_something', sql`${table.before} is not null or ${table.after} is not null`),
    index('history_change_id').on(table.changeId),
    index('history_at').on(table.at),
    index('history_entity').on(table.entity, table.entityId, table.id),
    index('history_actor').on(table.actor, table.id),
  ],
);
