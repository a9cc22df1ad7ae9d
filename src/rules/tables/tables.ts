// The tables, as Drizzle sees them. The database has the constraints, too, so it refuses wrong rows that are written by
// hand or by a migration. Triggers (drizzle/0018_own-schema.sql) keep `revision`, `updatedAt` and the history, however
// a row is changed.

import { sql } from 'drizzle-orm';
import {
  type AnyPgColumn,
  bigint,
  boolean,
  check,
  index,
  integer,
  jsonb,
  text,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';
import { ROUTE_DEFAULTS } from '../../core/matching/origin-routes.ts';
import { LISTED_KINDS, LISTS, type WrittenTierLimits } from '../../core/matching/rule.ts';
import { ENFORCEMENTS, FILE_EXTENSIONS, SETTINGS_DEFAULTS } from '../../core/matching/snapshot.ts';
import { areReplaced, kept, matches, moment, oneOf, weir, within } from './columns.ts';

// Tables that publications write: where rules are counted, and what was published last.

/** The last placement of each rule and the ones before; under `*`, the split of all rules without their own. */
export const placements = weir.table(
  'placements',
  {
    /** The id of the rule, or `*`. */
    id: text().primaryKey(),
    placed: jsonb().$type<Placed>().notNull(),
    /** Oldest first. */
    before: jsonb().$type<readonly PlacedThen[]>().notNull().default([]),
    /** The revision of the rule that `placed` comes from. A publication looks only at rules with another revision. */
    revision: bigint({ mode: 'number' }),
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

/** The last publication and a fingerprint of the tables: one row, which the cron run compares with the tables. */
export const lastPublication = weir.table(
  'last_publication',
  {
    id: integer().primaryKey().default(1),
    sequence: bigint({ mode: 'number' }).notNull(),
    /** The text in every region and in KV. */
    announcement: text().notNull(),
    /** Covers all published rows (src/rules/publishing/record.ts). */
    fingerprint: text().notNull(),
    /** Changes of callers after this moment are part of the fingerprint. */
    callersSince: moment().notNull(),
    /** Size of the rules, tiers and lists as they were published. */
    bytes: integer().notNull(),
  },
  (table) => [check('last_publication_is_one', sql`${table.id} = 1`)],
);

// The table of settings: one row, made by a migration. Triggers keep `revision` and the history.

/** The id of the only row. */
export const ALL_RULES = 'all';

export const settings = weir.table(
  'settings',
  {
    id: text().primaryKey().default(ALL_RULES),
    enforcement: text({ enum: ENFORCEMENTS }).notNull().default(SETTINGS_DEFAULTS.enforcement),
    fileExtensions: text({ enum: FILE_EXTENSIONS }).notNull().default(SETTINGS_DEFAULTS.fileExtensions),
    ...kept,
  },
  (table) => [
    check('settings_are_one', sql`${table.id} = ${sql.raw(`'${ALL_RULES}'`)}`),
    check('settings_enforcement_is_known', oneOf(table.enforcement, ENFORCEMENTS)),
    check('settings_file_extensions_is_known', oneOf(table.fileExtensions, FILE_EXTENSIONS)),
  ],
);

export type SettingsRow = typeof settings.$inferSelect;

// Sessions of the page that ended by logging out. Weir keeps a row until the session would have ended by itself.

export const endedSessions = weir.table(
  'ended_sessions',
  { id: text().primaryKey(), expiresAt: moment().notNull() },
  (table) => [index('ended_sessions_expires_at').on(table.expiresAt)],
);

// The table of routes: the origin for each host and resource. Triggers keep `revision` and the history, as for all tables
// that people edit.

export const LONGEST_TIMEOUT_MS = 900_000;
const LABEL = '[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?';

export const routes = weir.table(
  'routes',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().unique().default(sql`'route-' || left(gen_random_uuid()::text, 8)`),
    host: text().notNull().default(ROUTE_DEFAULTS.host),
    /** `/*`, or `/api/*`. */
    resource: text().notNull().default('/*'),
    /** The path of the resource, for the previous version. A trigger keeps both alike. */
    prefix: text().notNull().default(ROUTE_DEFAULTS.prefix),
    origin: text().notNull(),
    stripPrefix: text(),
    timeoutMs: integer(),
    hostHeader: text(),
    headers: jsonb().$type<Readonly<Record<string, string>>>().notNull().default({}),
    enabled: boolean().notNull().default(true),
    ...kept,
  },
  (table) => [
    check('routes_name_is_short', sql`length(${table.name}) between 1 and 128`),
    check(
      'routes_name_has_no_control_characters',
      sql`not ${matches(table.name, '[\\u0001-\\u001f\\u007f-\\u009f\\u2028\\u2029]')}`,
    ),
    check(
      'routes_host_is_a_host',
      sql`${table.host} = '*' or length(${table.host}) <= 253 and ${matches(table.host, `^(\\*\\.)?${LABEL}(\\.${LABEL})*$`)}`,
    ),
    check(
      'routes_resource_is_a_prefix',
      sql`length(${table.resource}) <= 1026 and ${matches(table.resource, '^(/[^/?#*{}[:upper:][:space:]]+)*/[*]$')}`,
    ),
    check(
      'routes_prefix_is_a_path',
      sql`${table.prefix} = '/' or length(${table.prefix}) <= 1024 and ${matches(table.prefix, '^(/[^/?#*{}[:upper:][:space:]]+)+$')}`,
    ),
    check(
      'routes_origin_is_known',
      sql`length(${table.origin}) <= 2048 and ${matches(table.origin, '^(pass|service:[A-Za-z_][A-Za-z0-9_]{0,63}|https?://[^[:space:]?#@]+)$')}`,
    ),
    check(
      'routes_strip_prefix_is_of_prefix',
      sql`${table.stripPrefix} is null or starts_with(${table.prefix} || '/', ${table.stripPrefix} || '/') and ${matches(table.stripPrefix, '^/.')}`,
    ),
    check('routes_timeout_is_positive', within(table.timeoutMs, 1, LONGEST_TIMEOUT_MS)),
    check('routes_host_header_is_a_host', matches(table.hostHeader, '^[A-Za-z0-9._-]{1,253}$')),
    check(
      'routes_headers_are_texts',
      sql`jsonb_typeof(${table.headers}) = 'object' and not jsonb_path_exists(${table.headers}, '$.* ? (@.type() != "string")')`,
    ),
    // If two enabled routes had the same host and resource, it would be unclear which one applies.
    uniqueIndex('routes_once').on(table.host, table.prefix).where(sql`${table.enabled}`),
  ],
);

export type RouteRow = typeof routes.$inferSelect;

export { weir } from './columns.ts';
export { rules } from './rules-table.ts';

export const revisions = weir.sequence('revisions');
/** Each publication takes the next number, so that an older one never replaces a newer one. */
export const publications = weir.sequence('publications');
/** Each transaction that changes something takes the next number. A transaction id starts over after a restore. */
export const changes = weir.sequence('changes');

/** Limits by name, of a tier or a tenant. */
const areNamedLimits = (name: string, limits: AnyPgColumn) => [
  check(`${name}_limits_is_an_object`, sql`jsonb_typeof(${limits}) = 'object'`),
  check(
    `${name}_limits_are_whole_numbers_or_null`,
    sql`not jsonb_path_exists(${limits}, '$.* ? (@ != null && @.type() != "object" && (@.type() != "number" || @ < 1 || @ > 1000000000000 || @ != @.floor()))')`,
  ),
  check(
    `${name}_multiples_name_a_tier`,
    sql`not jsonb_path_exists(${limits}, '$.* ? (@.type() == "object" && !(@.of.type() == "string" && @.times.type() == "number" && @.times >= 1 && @.times <= 1000000 && @.times == @.times.floor()))')`,
  ),
];

export const tiers = weir.table(
  'tiers',
  {
    name: text().primaryKey(),
    displayName: text().notNull().default(''),
    /** The price of a month, in cents. */
    priceCents: integer().notNull().default(0),
    limits: jsonb().$type<WrittenTierLimits>().notNull().default({}),
    isDefault: boolean().notNull().default(false),
    ...kept,
  },
  (table) => [
    check('tiers_name_is_plain', matches(table.name, '^[a-z0-9][a-z0-9-]{0,62}$')),
    check('tiers_display_name_is_short', sql`length(${table.displayName}) <= 128`),
    check('tiers_price_is_not_negative', sql`${table.priceCents} >= 0`),
    ...areNamedLimits('tiers', table.limits),
    uniqueIndex('tiers_one_default').on(table.isDefault).where(sql`${table.isDefault}`),
  ],
);

/** A tenant that snapshots know: one with an anchor day, or with limits of its own. */
export const IS_PUBLISHED_TENANT = sql`anchor_day is not null or limits <> '{}'`;

export const tenants = weir.table(
  'tenants',
  {
    id: text().primaryKey(),
    name: text().notNull().default(''),
    tier: text().references(() => tiers.name, { onUpdate: 'cascade' }),
    /** The day of the month on which its subscription is renewed. */
    anchorDay: integer(),
    /** They come before those of its tier. */
    limits: jsonb().$type<WrittenTierLimits>().notNull().default({}),
    ...kept,
  },
  (table) => [
    check('tenants_anchor_day_is_a_day', within(table.anchorDay, 1, 31)),
    check('tenants_id_is_short', sql`length(${table.id}) between 1 and 256`),
    check('tenants_name_is_short', sql`length(${table.name}) <= 128`),
    index('tenants_tier').on(table.tier),
    ...areNamedLimits('tenants', table.limits),
    // Each publication reads these.
    index('tenants_published').on(table.id).where(IS_PUBLISHED_TENANT),
  ],
);

/** Users whose tier or tenant is not the default one. */
export const users = weir.table(
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

/** A key that was made elsewhere: its prefix is the beginning of its hash. */
export const IS_FOREIGN = sql`prefix not like 'weir\\_%'`;

/** Stores the hash of a key and its beginning, for people to recognize it; never the key itself. */
export const apiKeys = weir.table(
  'api_keys',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().default(''),
    hash: text().notNull().unique(),
    prefix: text().notNull(),
    /** The user that owns the key. The user need not be in `users`. */
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
    // Each publication asks whether there is one. All entries are alike, so a million of them take a few megabytes.
    index('api_keys_foreign').on(table.disabled).where(IS_FOREIGN),
  ],
);

export const listEntries = weir.table(
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
export const history = weir.table(
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
