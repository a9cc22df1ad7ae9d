// Filters that collections have in common; one that is not given does not filter.
import { eq, ilike, type SQL } from 'drizzle-orm';
import type { PgColumn } from 'drizzle-orm/pg-core';
import * as z from 'zod';

export const flag = z.enum(['true', 'false']);

export const equals = (column: PgColumn, value: unknown): SQL | undefined =>
  value === undefined ? undefined : eq(column, value);

export const contains = (column: PgColumn, part: unknown): SQL | undefined =>
  typeof part === 'string' ? ilike(column, `%${part.replace(/[\\%_]/g, '\\$&')}%`) : undefined;
