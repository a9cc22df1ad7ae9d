// The schema of all tables, columns that several of them have, and conditions that their constraints are made of.
import { sql } from 'drizzle-orm';
import { type AnyPgColumn, bigint, pgSchema, timestamp } from 'drizzle-orm/pg-core';

/** All tables are in a schema of their own, so that the database can hold other tables of any name. */
export const weir = pgSchema('weir');

export const oneOf = (column: AnyPgColumn, values: readonly string[]) =>
  sql`${column} in (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;
export const within = (column: AnyPgColumn, from: number, to: number) =>
  sql`${column} between ${sql.raw(String(from))} and ${sql.raw(String(to))}`;
export const matches = (column: AnyPgColumn, pattern: string) => sql`${column} ~ ${sql.raw(`'${pattern}'`)}`;

export const matchesPath = (column: AnyPgColumn, path: string) =>
  sql`jsonb_path_exists(${column}, ${sql.raw(`'${path}'`)})`;
/** Weights by region: none below 0, and not all of them 0. */
export const areParts = (column: AnyPgColumn) =>
  sql`jsonb_typeof(${column}) <> 'object' or not ${matchesPath(column, '$.* ? (@.type() != "number" || @ < 0)')} and ${matchesPath(column, '$.* ? (@ > 0)')}`;
/** Earlier placements: each entry has the object `placed`, and `replacedAtMs` as a number or null. */
export const areReplaced = (column: AnyPgColumn) =>
  sql`jsonb_typeof(${column}) = 'array' and not ${matchesPath(column, '$[*] ? (!((@.replacedAtMs.type() == "number" || @.replacedAtMs.type() == "null") && @.placed.type() == "object"))')}`;

export const moment = () => timestamp({ withTimezone: true });
export const emptyList = sql`'{}'`;

/** Columns of every table that people edit. */
export const kept = {
  /** The ETag. Every change takes a new number, and none is used twice. */
  revision: bigint({ mode: 'number' }).notNull().default(sql`nextval('weir.revisions')`),
  createdAt: moment().notNull().defaultNow(),
  updatedAt: moment().notNull().defaultNow(),
};

/** A list of at most `most` objects that all meet the condition, in SQL/JSON path. */
export const areObjects = (column: AnyPgColumn, most: number, condition: string) =>
  sql`case jsonb_typeof(${column}) when 'array' then jsonb_array_length(${column}) <= ${sql.raw(String(most))} and not ${matchesPath(column, 'strict $[*] ? (@.type() == "array")')} and not ${matchesPath(column, `$[*] ? (!(@.type() == "object" && ${condition}))`)} else false end`;
/** A member that is a whole number, in SQL/JSON path. */
export const isWholeMember = (member: string, from: number, to: number) =>
  `@.${member}.type() == "number" && @.${member} >= ${from} && @.${member} <= ${to} && @.${member} == @.${member}.floor()`;
