// The tables, as Drizzle sees them. The constraints stand in the database too: a row written by hand or by
// a migration is refused there when SQL can tell that it is wrong.
import { sql } from 'drizzle-orm';
import { boolean, check, integer, pgTable, text, timestamp, uuid } from 'drizzle-orm/pg-core';
import { ALGORITHM_IDS } from '../core/algorithms/registry.ts';
import { SCOPES } from '../core/rule.ts';

const oneOf = (values: readonly string[]) => sql.raw(values.map((value) => `'${value}'`).join(', '));

export const rules = pgTable(
  'rules',
  {
    id: uuid().primaryKey().defaultRandom(),
    name: text().notNull().unique(),
    resource: text().notNull(),
    scope: text({ enum: SCOPES }).notNull(),
    algorithm: text({ enum: ALGORITHM_IDS }).notNull(),
    limit: integer().notNull(),
    windowSeconds: integer('window_seconds').notNull(),
    priority: integer().notNull().default(100),
    enabled: boolean().notNull().default(true),
    createdAt: timestamp('created_at', { withTimezone: true }).notNull().defaultNow(),
    updatedAt: timestamp('updated_at', { withTimezone: true }).notNull().defaultNow(),
  },
  (table) => [
    check('rules_resource_is_a_path', sql`${table.resource} like '/%'`),
    check('rules_scope_is_known', sql`${table.scope} in (${oneOf(SCOPES)})`),
    check('rules_algorithm_is_known', sql`${table.algorithm} in (${oneOf(ALGORITHM_IDS)})`),
    check('rules_limit_is_positive', sql`${table.limit} > 0`),
    check('rules_window_is_positive', sql`${table.windowSeconds} > 0`),
  ],
);
