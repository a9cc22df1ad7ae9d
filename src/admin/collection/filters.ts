// Filters that collections have in common. A filter without a value filters nothing.
import { eq, ilike, or, type SQL, sql } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import * as z from 'zod';

export const flag = z.enum(['true', 'false']);

export const equals = (column: PgColumn, value: unknown): SQL | undefined =>
  value === undefined ? undefined : eq(column, value);

/** The column begins with the text, or the text begins with the column. */
export const beginsAlike = (column: PgColumn, text: unknown): SQL | undefined =>
  typeof text === 'string'
    ? sql`(starts_with(${column}, ${text}) or starts_with(${text}, ${column}))`
    : undefined;

export const contains = (column: PgColumn, part: unknown): SQL | undefined =>
  typeof part === 'string' ? ilike(column, `%${part.replace(/[\\%_]/g, '\\$&')}%`) : undefined;

/** At least one of the columns contains the text. */
export const containsAny = (columns: readonly PgColumn[], part: unknown): SQL | undefined =>
  or(...columns.map((column) => contains(column, part)));
