// The tables, as Drizzle sees them. The database has the constraints, too, so it refuses wrong rows that are written by
// hand or by a migration. Triggers (drizzle/0018_own-schema.sql) keep `revision`, `updatedAt` and the history, however
// a row is changed.
import { sql } from 'drizzle-orm';
import { bigint, boolean, check, index, integer, jsonb, text, uniqueIndex, uuid } from 'drizzle-orm/pg-core';
import { LISTED_KINDS, LISTS, type WrittenTierLimits } from '../../core/matching/rule.ts';
import { kept, matches, moment, oneOf, weir, within } from './columns.ts';

export { weir } from './columns.ts';
export { lastPublication, type Placed, type PlacedThen, placements } from './publication-tables.ts';
export { routes } from './route-table.ts';
export { rules } from './rules-table.ts';
export { endedSessions } from './session-table.ts';
export { settings } from './settings-table.ts';

export const revisions = weir.sequence('revisions');
/** Each publication takes the next number, so that an older one never replaces a newer one. */
export const publications = weir.sequence('publications');
/** Each transaction that changes something takes the next number. A transaction id starts over after a restore. */
export const changes = weir.sequence('changes');

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
    check('tiers_limits_is_an_object', sql`jsonb_typeof(${table.limits}) = 'object'`),
    check(
      'tiers_limits_are_whole_numbers_or_null',
      sql`not jsonb_path_exists(${table.limits}, '$.* ? (@ != null && @.type() != "object" && (@.type() != "number" || @ < 1 || @ > 1000000000000 || @ != @.floor()))')`,
    ),
    check(
      'tiers_multiples_name_a_tier',
      sql`not jsonb_path_exists(${table.limits}, '$.* ? (@.type() == "object" && !(@.of.type() == "string" && @.times.type() == "number" && @.times >= 1 && @.times <= 1000000 && @.times == @.times.floor()))')`,
    ),
    uniqueIndex('tiers_one_default').on(table.isDefault).where(sql`${table.isDefault}`),
  ],
);

export const tenants = weir.table(
  'tenants',
  {
    id: text().primaryKey(),
    name: text().notNull().default(''),
    tier: text().references(() => tiers.name, { onUpdate: 'cascade' }),
    /** The day of the month on which its subscription is renewed. */
    anchorDay: integer(),
    ...kept,
  },
  (table) => [
    check('tenants_anchor_day_is_a_day', within(table.anchorDay, 1, 31)),
    check('tenants_id_is_short', sql`length(${table.id}) between 1 and 256`),
    check('tenants_name_is_short', sql`length(${table.name}) <= 128`),
    index('tenants_tier').on(table.tier),
    // Each publication reads tenants that have an anchor day.
    index('tenants_anchored').on(table.id).where(sql`${table.anchorDay} is not null`),
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
