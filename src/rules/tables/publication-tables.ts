// Tables that publications write: where rules are counted, and what was published last.
import { sql } from 'drizzle-orm';
import { bigint, check, integer, jsonb, text } from 'drizzle-orm/pg-core';
import { areReplaced, moment, weir } from './columns.ts';

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
    /** Covers all published rows (src/rules/publishing/last-publication.ts). */
    fingerprint: text().notNull(),
    /** Changes of callers after this moment are part of the fingerprint. */
    callersSince: moment().notNull(),
    /** Size of the rules, tiers and lists as they were published. */
    bytes: integer().notNull(),
  },
  (table) => [check('last_publication_is_one', sql`${table.id} = 1`)],
);
